"""The recorder's loop: takes a sample per interval, stores each as one file, merges and expires old files."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from kafka_dr.domain.recorder_rows import COLUMNS, RecorderRows
from kafka_dr.errors import ArchiveUnavailable
from kafka_dr.hooks.archive import Archive

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
        """
        self.name, self._look, self._archive = name, look, archive
        self._pace, self._retention, self._ended = interval_seconds * (1 - _EARLY_SHARE), retention, ended
        self._unwritten: deque[tuple[datetime, pa.Table]] = deque()
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
        self._unwritten.append((now, pa.table(rows.columns, SCHEMA)))
        if len(self._unwritten) > _MOST_WAITING:
            # A sample holds only changes: after one is dropped, the next must hold all states.
            self._unwritten.popleft()
            self._hour = None
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
            at, table = self._unwritten[0]
            self._archive.write(SAMPLES, table, at)
            self._unwritten.popleft()

    def _merge_and_expire(self, now: datetime) -> None:
        self._archive.merge(now)
        self._archive.expire(now - self._retention)
