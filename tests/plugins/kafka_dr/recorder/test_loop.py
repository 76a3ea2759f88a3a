"""The recorder's loop: a whole sample an hour, nothing lost without the archive, old hours merged."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kafka_dr.domain.recorder_rows import Kind, RecorderRows
from kafka_dr.errors import ArchiveUnavailable
from kafka_dr.hooks.archive import Archive
from kafka_dr.recorder import loop as recording
from kafka_dr.recorder.loop import SAMPLES, Recording

NOON = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)


class Looks:
    """Counts looks; each gives one row with its number."""

    def __init__(self) -> None:
        self.whole: list[bool] = []

    def __call__(self, whole: bool) -> RecorderRows:
        """One sample."""
        self.whole.append(whole)
        rows = RecorderRows(len(self.whole))
        rows.add(Kind.SAMPLE, details="{}")
        return rows


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """An archive in a folder."""
    return Archive(f"file://{tmp_path}", "a-to-b")


def recorder(archive: Any, looks: Looks, days: float = 14) -> Recording:
    """A recorder that a test drives sample by sample."""
    return Recording("a->b", looks, archive, 10.0, timedelta(days=days), threading.Event())


def kept(archive: Archive) -> list[int]:
    """Times of the samples in the archive, in order."""
    table = archive.read(SAMPLES)
    return sorted(table["at"].to_pylist()) if table else []


def test_the_first_sample_of_each_hour_is_whole(archive: Archive) -> None:
    """So that what was kept before may go."""
    looks = Looks()
    one = recorder(archive, looks)
    for minutes in (0, 1, 59, 60, 61):
        one.sample(NOON + timedelta(minutes=minutes))
    assert looks.whole == [True, False, False, True, False] and kept(archive) == [1, 2, 3, 4, 5]


def test_samples_wait_for_an_archive_that_is_away(
    archive: Archive, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are kept in order as soon as it is back, each under its own time."""
    one, write = recorder(archive, Looks()), archive.write

    def away(*_: Any) -> None:
        raise ArchiveUnavailable("writing in the archive failed", "OSError", "look")

    monkeypatch.setattr(archive, "write", away)
    one.sample(NOON)
    one.sample(NOON + timedelta(seconds=10))
    assert kept(archive) == [] and "2 samples wait to be written" in capsys.readouterr().out
    monkeypatch.setattr(archive, "write", write)
    one.sample(NOON + timedelta(seconds=20))
    assert kept(archive) == [1, 2, 3]


def test_after_a_sample_was_given_up_the_next_one_is_whole(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise what changed in it would be read as unchanged."""
    looks = Looks()
    one = recorder(archive, looks)
    monkeypatch.setattr(recording, "_MOST_WAITING", 2)

    def away(*_: Any) -> None:
        raise ArchiveUnavailable("writing in the archive failed", "OSError", "look")

    monkeypatch.setattr(archive, "write", away)
    for seconds in range(4):
        one.sample(NOON + timedelta(seconds=seconds))
    assert looks.whole == [True, False, False, True]


def test_old_hours_are_merged_and_expire(archive: Archive, tmp_path: Path) -> None:
    """A past hour is one file; beyond the retention it is none."""
    one = recorder(archive, Looks(), days=1)
    for seconds in (0, 10, 20):
        one.sample(NOON + timedelta(seconds=seconds))
    one.sample(NOON + timedelta(hours=1))
    assert len(list((tmp_path / "a-to-b" / SAMPLES / "2026-11-22" / "12").iterdir())) == 1
    assert kept(archive) == [1, 2, 3, 4]
    one.sample(NOON + timedelta(hours=26))
    assert kept(archive) == [5] or kept(archive) == [4, 5]


def test_it_ends_when_told(archive: Archive) -> None:
    """A sample under way is kept before."""
    looks, ended = Looks(), threading.Event()

    def look(whole: bool) -> RecorderRows:
        ended.set()
        return looks(whole)

    Recording("a->b", look, archive, 10.0, timedelta(days=1), ended).run()
    assert looks.whole == [True] and kept(archive) == [1]


class Signing:
    """Stands in for what signs; says what it was given."""

    def __init__(self, *errors: Exception | None) -> None:
        """Take what the first writes raise, in order."""
        self.errors, self.given, self.merged = list(errors), [], 0

    def write(self, rows: Any, at: datetime, ids: Any, dropped: int) -> None:
        """One sample."""
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise error
        self.given.append((rows["at"].to_pylist(), at, ids, dropped))

    def merge(self, before: datetime) -> None:
        """Past hours."""
        self.merged += 1


def signed(archive: Archive, looks: Looks, signing: Signing | None, because: str | None = None) -> Recording:
    """A recorder whose samples are signed, or should be."""
    return Recording("a->b", looks, archive, 10.0, timedelta(days=14), threading.Event(), signing, because)


def test_a_signed_sample_tells_how_many_were_dropped_before(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    """The archive was away for longer than samples are kept in memory; no number is skipped, and the gap is said."""
    monkeypatch.setattr(recording, "_MOST_WAITING", 2)
    away = ArchiveUnavailable("writing in the archive failed", "OSError", "look")
    signing, looks = Signing(*[away] * 4), Looks()
    one = signed(archive, looks, signing)
    for seconds in range(5):
        one.sample(NOON + timedelta(seconds=seconds))
    assert [(at, dropped) for at, *_, dropped in signing.given] == [([4], 3), ([5], 0)]
    assert looks.whole == [True, False, False, True, True] and signing.merged == 1


def test_a_signer_that_fails_costs_no_sample(archive: Archive, capsys: pytest.CaptureFixture[str]) -> None:
    """It is stored unsigned, loudly; the next one has all states, and says that one is missing before it."""
    signing, looks = Signing(None, RuntimeError("of the signer")), Looks()
    one = signed(archive, looks, signing)
    for seconds in range(4):
        one.sample(NOON + timedelta(seconds=seconds))
    assert kept(archive) == [2] and looks.whole == [True, False, True, False]
    assert [(at, dropped) for at, *_, dropped in signing.given] == [([1], 0), ([3], 1), ([4], 0)]
    told = capsys.readouterr().out
    assert "ERROR a->b: a sample is stored unsigned" in told and "RuntimeError: of the signer" in told


def test_without_a_private_key_samples_go_on_unsigned(
    archive: Archive, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Said each hour; nothing is merged, since that would take the proofs from signed files."""
    one = signed(archive, Looks(), None, "there is no key")
    for minutes in (0, 1, 60, 61):
        one.sample(NOON + timedelta(minutes=minutes))
    assert kept(archive) == [1, 2, 3, 4] and len(list(tmp_path.rglob("*.parquet"))) == 4
    told = capsys.readouterr().out
    assert told.count("ERROR a->b: samples are not signed, and no failover relies on them: there is no key") == 2


class Clock:
    """A clock that only looks and waits move on; as a recorder's `ended` it ends it after the last look."""

    def __init__(self, looks: list[float], late: list[float]) -> None:
        """Take how long each look takes, in seconds, and how much later than asked each wait ends."""
        self.now, self.began = 100.0, []
        self._looks, self._late = iter(looks), iter(late)
        self._left = len(looks)

    def look(self, whole: bool) -> RecorderRows:
        """One sample."""
        self.began.append(self.now)
        self.now += next(self._looks)
        self._left -= 1
        return RecorderRows(0)

    def monotonic(self) -> float:
        """Seconds."""
        return self.now

    def wait(self, seconds: float) -> bool:
        """Ends late."""
        assert seconds >= 0
        self.now += seconds + next(self._late)
        return self.is_set()

    def is_set(self) -> bool:
        """Whether all looks were taken."""
        return not self._left

    def intervals(self, archive: Archive, monkeypatch: pytest.MonkeyPatch) -> list[float]:
        """Return the times between beginnings of looks, of a recorder with ten seconds and this clock."""
        monkeypatch.setattr(recording, "time", SimpleNamespace(monotonic=self.monotonic))
        Recording("a->b", self.look, archive, 10.0, timedelta(days=1), self).run()
        return [later - earlier for earlier, later in pairwise(self.began)]


def test_no_interval_is_longer_than_promised(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long looks last, and though waits end late; and what was late once is not carried on."""
    count = 50
    clock = Clock([0.1, 6.0, 2.5, 9.0, 0.3] * 10, [0.004, 0.0, 0.4, 0.2, 0.05] * 10)
    intervals = clock.intervals(archive, monkeypatch)
    assert len(intervals) == count - 1 and max(intervals) <= 10.0 and min(intervals) > 9.0
    assert clock.began[-1] - clock.began[0] == pytest.approx((count - 1) * 9.5, abs=0.5)


def test_a_look_that_took_too_long_is_followed_at_once_and_by_no_others(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it left out is not made up for."""
    clock = Clock([0.5, 31.0, 0.5, 0.5, 0.5], [0.0] * 5)
    assert clock.intervals(archive, monkeypatch) == pytest.approx([9.5, 31.0, 9.5, 9.5])
