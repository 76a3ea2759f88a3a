"""Where Spark's executors write exported records: to the store if the topology names one, else to the output folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kafka_dr.procedure.run import Run

#: Spark jobs whose executors export records.
EXPORTING_JOBS = ("assess_data_loss", "find_stranded_records")


def export_fields(procedure: Run, output_folder: Path) -> dict[str, Any]:
    """Return the fields of job.json that state where records are exported.

    In the store the files have the names that they would have in the evidence folder, so that any machine fetches them.
    """
    stored_at = procedure.artifacts.stored_at
    return {"export_to": f"{stored_at}{output_folder.name}" if stored_at else None}


def export_secrets(procedure: Run) -> dict[str, str]:
    """Return the environment variables by which a job gets the options of the store, with its login."""
    store = procedure.topology.store
    if store is None or store.connection is None:
        return {}
    return {"KAFKA_DR_STORE_OPTIONS": json.dumps(procedure.systems.connections.archive_options(store.connection))}


def store_listing(procedure: Run, output_folder: Path) -> None:
    """Put the listing and the figures of an export into the store, beside the files that executors wrote there."""
    if procedure.topology.store is not None:
        for path in sorted(path for path in output_folder.iterdir() if path.is_file()):
            procedure.artifacts.store_if_possible(path)
