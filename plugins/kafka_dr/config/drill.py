"""What drills on the real clusters use: Connect workers, clients, environment and limits of their own."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from kafka_dr.config.fields import Alias, Connection, Model, Principal, Seconds, matching_text

EnvironmentName = Annotated[
    str,
    matching_text(
        r"[a-z0-9][a-z0-9-]*", 60, "a name of lower-case letters, digits and hyphens, such as production or staging"
    ),
]


class DrillSettings(Model):
    """Settings of drills.

    Attributes:
        connect: per alias, the Airflow connection of the Connect worker group beside that cluster in which drills run
            their own MirrorMaker 2: never a worker group of production's flows.
        clients: per alias, the Airflow connection with the principal of a drill's producers and consumers.
        principals: of these clients, on any cluster; a drill fences, moves and judges the rights of these alone.
        environment: what the marker on each cluster must name, so that no drill runs on clusters of another one.
        scheduled: whether drills start by calendar and after changes; otherwise only people start them.
        time_to_live_seconds: after this time whatever a drill has made is removed, even if its DAG run was killed.
        records: how many records a drill writes in each pass.
        partitions: of each of a drill's topics.
        most_bytes: a drill never writes more bytes than this into one cluster.
    """

    connect: dict[Alias, Connection] = Field(default_factory=dict)
    clients: dict[Alias, Connection] = Field(default_factory=dict)
    principals: tuple[Principal, ...] = ()
    environment: EnvironmentName
    scheduled: bool = True
    time_to_live_seconds: Seconds = 7200.0
    records: Annotated[int, Field(strict=True, ge=100, le=10_000_000)] = 5_000
    partitions: Annotated[int, Field(strict=True, ge=1, le=100)] = 3
    most_bytes: Annotated[int, Field(strict=True, ge=1_000_000)] = 1_000_000_000

    @model_validator(mode="after")
    def _has_clients_beside_workers(self) -> DrillSettings:
        if self.connect and set(self.connect) != set(self.clients):
            raise ValueError("`connect` and `clients` name the same clusters: a drill needs both on each of them")
        if self.connect and not self.principals:
            raise ValueError("`principals` names the principals of `clients`, such as User:switchback-drill")
        return self
