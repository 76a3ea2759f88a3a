"""The recorder's loop: takes a sample per interval, stores each as one file, merges and expires old files."""

from __future__ import annotations

import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from kafka_dr.domain.recorder_rows import COLUMNS, RecorderRows
from kafka_dr.domain.sample_chain import ClusterIds
from kafka_dr.errors import ArchiveUnavailable
from kafka_dr.hooks.archive import Archive
from kafka_dr.recorder.sample_signing import SampleSigning

SAMPLES = "samples"
SCHEMA = pa.schema(list(COLUMNS.items()))
#: Share of the interval by which each sample starts early: a wait ends late on a busy machine, and the time between
#: samples must not exceed the promised interval.
_EARLY_SHARE = 0.05
#: Samples buffered while the archive is unreachable: one hour at an interval of ten seconds.
_MOST_WAITING = 360


class Recording:
    """One flow's recorder; `run` ends when `ended` is set."""

    def __init__(
        self,
        name: str,
        look: Callable[[bool], RecorderRows],
        archive: Archive,
        interval_seconds: float,
        retention: timedelta,
        ended: threading.Event,
        signing: SampleSigning | None = None,
        unsigned_because: str | None = None,
    ) -> None:
        """Prepare the loop; no sample is taken yet.

        Args:
            name: the flow's name, for messages.
            look: takes a sample of all states if its argument is True, else of changes only.
            archive: where samples are stored.
            interval_seconds: maximum from the start of one sample to the start of the next; a sample that takes longer
                is followed by the next sample at once.
            retention: samples older than this are deleted from the archive.
            ended: set by another thread to end `run`.
            signing: stores the samples signed; None: they are stored unsigned.
            unsigned_because: why the samples are unsigned although the topology names public keys; said each hour.
        """
        self.name, self._look, self._archive = name, look, archive
        self._pace, self._retention, self._ended = interval_seconds * (1 - _EARLY_SHARE), retention, ended
        self._signing, self._unsigned_because = signing, unsigned_because
        self._unwritten: deque[tuple[datetime, pa.Table, ClusterIds]] = deque()
        self._dropped = 0
        self._hour: datetime | None = None

    def run(self) -> None:
        """Take samples until `ended` is set; a sample under way is completed.

        A sample that begins a little late does not shift the samples after it.
        """
        due = time.monotonic()
        while not self._ended.is_set():
            self.sample(datetime.now(UTC))
            due = max(due + self._pace, time.monotonic())
            self._ended.wait(due - time.monotonic())

    def sample(self, now: datetime) -> None:
        """Take a sample and store it in the archive; an hour's first sample has all states, any other only changes.

        After an hour's first sample, the files of past hours are merged, and files older than the retention deleted.
        """
        hour = now.replace(minute=0, second=0, microsecond=0)
        whole, self._hour = hour != self._hour, hour
        rows = self._look(whole)
        self._unwritten.append((now, pa.table(rows.columns, SCHEMA), rows.ids))
        if len(self._unwritten) > _MOST_WAITING:
            # A sample holds only changes: after one is dropped, the next must hold all states.
            self._unwritten.popleft()
            self._dropped, self._hour = self._dropped + 1, None
        if whole and self._unsigned_because:
            print(
                f"ERROR {self.name}: samples are not signed, and no failover relies on them: {self._unsigned_because}",
                flush=True,
            )
        try:
            self._write_samples()
            if whole:
                self._merge_and_expire(now)
        except ArchiveUnavailable as error:
            print(f"ERROR {self.name}: {error}; {len(self._unwritten)} samples wait to be written", flush=True)
            return
        if whole:
            print(f"INFO {self.name}: {len(rows)} rows in this hour's whole sample", flush=True)

    def _write_samples(self) -> None:
        while self._unwritten:
            at, table, ids = self._unwritten[0]
            if not self._store_signed(table, at, ids):
                self._archive.write(SAMPLES, table, at)
            self._unwritten.popleft()

    def _store_signed(self, table: pa.Table, at: datetime, ids: ClusterIds) -> bool:
        """Store a sample signed; return False without a signer, or if signing failed, which must not end the recording.

        Who relies on signed samples does not see an unsigned one: the sample after it therefore has all states.
        """
        if self._signing is None:
            return False
        try:
            self._signing.write(table, at, ids, self._dropped)
        except ArchiveUnavailable:
            raise
        except Exception:  # noqa: BLE001 (whatever a signer does, samples are stored)
            print(f"ERROR {self.name}: a sample is stored unsigned:\n{traceback.format_exc()}", flush=True)
            self._dropped, self._hour = self._dropped + 1, None
            return False
        self._dropped = 0
        return True

    def _merge_and_expire(self, now: datetime) -> None:
        # An unsigned merged file would lose the proofs of the signed files that it replaces.
        if self._signing is not None:
            self._signing.merge(now)
        elif self._unsigned_because is None:
            self._archive.merge(now)
        self._archive.expire(now - self._retention)
