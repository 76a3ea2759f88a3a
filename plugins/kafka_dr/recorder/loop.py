"""The recorder's loop: looks at the interval's pace, keeps each sample as one file, merges and expires old ones."""

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
#: Of an interval, so much earlier begins each sample: a wait ends late on a busy machine, and no interval may be longer
#: than was promised.
_EARLY_SHARE = 0.05
#: Samples that wait for an archive which cannot be reached: at ten seconds an hour's.
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
        """Nothing is looked at yet.

        Args:
            name: the flow's, for messages.
            look: makes a sample; True asks for a whole one.
            interval_seconds: at most, from the beginning of one sample to that of the next; a sample that takes longer
                is followed at once.
        """
        self.name, self._look, self._archive = name, look, archive
        self._pace, self._retention, self._ended = interval_seconds * (1 - _EARLY_SHARE), retention, ended
        self._waiting: deque[tuple[datetime, pa.Table]] = deque()
        self._hour: datetime | None = None

    def run(self) -> None:
        """Look until ended; a sample under way is kept before. A late beginning does not put off the next one."""
        due = time.monotonic()
        while not self._ended.is_set():
            self.sample(datetime.now(UTC))
            due = max(due + self._pace, time.monotonic())
            self._ended.wait(due - time.monotonic())

    def sample(self, now: datetime) -> None:
        """One look, kept; at the beginning of each hour a whole one, and older hours are tidied."""
        hour = now.replace(minute=0, second=0, microsecond=0)
        whole, self._hour = hour != self._hour, hour
        rows = self._look(whole)
        self._waiting.append((now, pa.table(rows.columns, SCHEMA)))
        if len(self._waiting) > _MOST_WAITING:
            # What follows a lost sample would be read as if nothing had changed in it.
            self._waiting.popleft()
            self._hour = None
        try:
            self._keep_waiting()
            if whole:
                self._tidy(now)
        except ArchiveUnavailable as error:
            print(f"ERROR {self.name}: {error}; {len(self._waiting)} samples wait", flush=True)
            return
        if whole:
            print(f"INFO {self.name}: {len(rows)} rows in this hour's whole sample", flush=True)

    def _keep_waiting(self) -> None:
        while self._waiting:
            at, table = self._waiting[0]
            self._archive.write(SAMPLES, table, at)
            self._waiting.popleft()

    def _tidy(self, now: datetime) -> None:
        self._archive.merge(now)
        self._archive.expire(now - self._retention)
