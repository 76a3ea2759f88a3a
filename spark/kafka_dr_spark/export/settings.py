"""Read where and in which form a job exports records: from job.json, with secrets from the environment."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka_dr_spark.contract.input import load_json
from kafka_dr_spark.contract.schemas import ContractBroken, check_fields
from kafka_dr_spark.export.place import ExportPlace
from kafka_dr_spark.export.record_form import HASH, RecordForm
from kafka_dr_spark.export.store import ExportStore

STORE_OPTIONS, KEY_SECRET = "KAFKA_DR_STORE_OPTIONS", "KAFKA_DR_EXPORT_SECRET"


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


def load_export(given: Path) -> ExportSettings:
    """Return the settings that job.json and the environment state.

    Raises:
        ContractBroken: job.json demands hashed keys, and there is no secret; or the store's options are unusable.
    """
    job = check_fields("job", load_json(given / "job.json"))
    secret = os.environ.get(KEY_SECRET, "")
    if job["export_keys"] == HASH and not secret:
        raise ContractBroken(
            f"{KEY_SECRET}: not set, and job.json demands hashed keys; install the folders plugins and spark from the"
            " same release, because the Airflow task sets the variable for the job"
        )
    form = RecordForm(job["export_values"], job["export_keys"], secret)
    return ExportSettings(form, job["export_to"], _store_options() if job["export_to"] else {})


def shows_keys(given: Path) -> bool:
    """Return whether job.json lets lists have the SHA-256 of keys."""
    return bool(check_fields("job", load_json(given / "job.json"))["export_keys"] != HASH)


def _store_options() -> dict[str, Any]:
    try:
        options = json.loads(os.environ.get(STORE_OPTIONS) or "{}")
    except ValueError:
        options = None
    if not isinstance(options, dict):
        raise ContractBroken(
            f"{STORE_OPTIONS}: must be a JSON object of fsspec's options, such as those in the extra of the store's"
            " Airflow connection"
        )
    return options
