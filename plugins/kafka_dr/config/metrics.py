"""What the topology states about metrics: the token with which they are scraped, and the file for node_exporter."""

from __future__ import annotations

from pathlib import PurePath

from pydantic import model_validator

from kafka_dr.config.fields import Connection, FilePath, Model


class MetricsSettings(Model):
    """Where Prometheus finds metrics; at least one of the two.

    Attributes:
        connection: Airflow connection whose password is the token with which `/switchback/metrics` is scraped.
        file: file that readiness_check replaces after each check, for node_exporter's textfile collector, which reads
            only names that end in `.prom`.
    """

    connection: Connection | None = None
    file: FilePath | None = None

    @model_validator(mode="after")
    def _has_a_place(self) -> MetricsSettings:
        if self.connection is None and self.file is None:
            raise ValueError("name a `connection`, a `file`, or both")
        if self.file is not None and PurePath(self.file).suffix != ".prom":
            raise ValueError("the name of `file` must end in .prom: node_exporter reads no other file")
        return self
