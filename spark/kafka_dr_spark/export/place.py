"""Where a job's tasks write records: the driver's output folder, which all machines share, or the site's store.

Invariant: an attempt of a task writes to files of its own names. Spark may run a task twice, at the same time even; the
rows that Spark accepts, of one attempt, name the files that count.
"""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kafka_dr_spark.contract.private_files import private_folder
from kafka_dr_spark.export.record_form import WHOLE, RecordForm
from kafka_dr_spark.export.store import ExportStore

#: Folders of an export, each with at most one file per partition that counts: stranded records, lists of uncommitted
#: stranded records, and records that were replicated and are no longer on the target.
STRANDED, UNCOMMITTED, OLDER = "stranded", "uncommitted", "older"


@dataclass(frozen=True)
class AttemptFiles:
    """The files of one attempt of a task.

    Attributes:
        folder: contains the folders of an export.
        attempt: ends the names of all files.
        form: the form of the records.
        store: the store's folder to which the files go; None if they stay in `folder`.
    """

    folder: Path
    attempt: str
    form: RecordForm = WHOLE
    store: ExportStore | None = None

    def store_all(self) -> None:
        """Put all files into the store, if there is one; raise NotStored if it does not take one of them."""
        if self.store is not None:
            self.store.put_all(self.folder)


@dataclass(frozen=True)
class ExportPlace:
    """Where attempts of tasks write. Instances go to workers.

    Attributes:
        folder: the driver's scratch folder; without a store all workers must reach it.
        form: the form of the records.
        store: folder of the store to which the files go.
    """

    folder: str
    form: RecordForm = WHOLE
    store: ExportStore | None = None

    @contextmanager
    def attempt(self) -> Iterator[AttemptFiles]:
        """Yield the files of a new attempt; with a store they are on this machine's disk until the end."""
        attempt = uuid.uuid4().hex[:12]
        if self.store is None:
            yield AttemptFiles(Path(self.folder), attempt, self.form)
            return
        # Spark deletes this folder, if a task is killed.
        spark_folder = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
        with tempfile.TemporaryDirectory(
            prefix="kafka_dr_export-", dir=spark_folder if Path(spark_folder or "/absent").is_dir() else None
        ) as name:
            for kind in (STRANDED, UNCOMMITTED, OLDER):
                private_folder(Path(name) / kind)
            yield AttemptFiles(Path(name), attempt, self.form, self.store)

    def keep_only(self, listed: Iterable[tuple[str, str]]) -> None:
        """Delete files of attempts that do not count from the driver's scratch folder; in a store they stay.

        Args:
            listed: folder and name of each file that counts.
        """
        counting = {Path(self.folder) / kind / name for kind, name in listed}
        for kind in (STRANDED, UNCOMMITTED, OLDER):
            for path in (Path(self.folder) / kind).glob("*.parquet"):
                if path not in counting:
                    path.unlink()
