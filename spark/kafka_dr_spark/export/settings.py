"""Read where and in which form a job exports records: from job.json, with secrets from the job's logins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka_dr_spark.contract.input import load_json
from kafka_dr_spark.contract.logins import Logins
from kafka_dr_spark.contract.schemas import ContractBroken, check_fields
from kafka_dr_spark.export.place import ExportPlace
from kafka_dr_spark.export.record_form import HASH, RecordForm
from kafka_dr_spark.export.store import ExportStore


@dataclass(frozen=True)
class ExportSettings:
    """Where and in which form a job exports records.

    Attributes:
        form: the form of the records.
        store_uri: URI of the store's folder; None for the job's output folder.
        options: fsspec's options of the store; never shown.
    """

    form: RecordForm
    store_uri: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def description(self) -> dict[str, str | None]:
        """What summary.json says of the export."""
        return {"at": self.store_uri, **self.form.description}

    def folders(self, *names: str) -> tuple[str, ...]:
        """Return which of these folders the job's output gets: none of them if they are in the store."""
        return names if self.store_uri is None else ()

    def place(self, folder: Path) -> ExportPlace:
        """Return the place to which tasks write; `folder` is the driver's scratch folder."""
        store = None if self.store_uri is None else ExportStore(self.store_uri, self.options)
        return ExportPlace(str(folder), self.form, store)


def load_export(given: Path, logins: Logins) -> ExportSettings:
    """Return the settings that job.json states, with the secrets among the job's logins.

    Raises:
        ContractBroken: job.json demands hashed keys, and there is no secret.
    """
    job = check_fields("job", load_json(given / "job.json"))
    if job["export_keys"] == HASH and not logins.export_secret:
        raise ContractBroken(
            "the file of --logins has no export_secret, and job.json demands hashed keys; install the folders plugins"
            " and spark from the same release, because the Airflow task writes the secret for the job"
        )
    form = RecordForm(job["export_values"], job["export_keys"], logins.export_secret)
    return ExportSettings(form, job["export_to"], logins.store if job["export_to"] else {})


def shows_keys(given: Path) -> bool:
    """Return whether job.json lets lists have the SHA-256 of keys."""
    return bool(check_fields("job", load_json(given / "job.json"))["export_keys"] != HASH)
