"""The recorder's loop: a whole sample an hour, nothing lost while the archive is away, old hours merged and expired."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kafka_dr.domain.recorded import Kind, Rows
from kafka_dr.errors import ArchiveUnavailable
from kafka_dr.hooks.archive import Archive
from kafka_dr.recorder import recording
from kafka_dr.recorder.recording import SAMPLES, Recording

NOON = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)


class Looks:
    """Counts looks; each gives one row with its number."""

    def __init__(self) -> None:
        self.whole: list[bool] = []

    def __call__(self, whole: bool) -> Rows:
        """One sample."""
        self.whole.append(whole)
        rows = Rows(len(self.whole))
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


def test_samples_wait_for_an_archive_that_is_away(archive: Archive, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """They are kept in order as soon as it is back, each under its own time."""
    one, write = recorder(archive, Looks()), archive.write

    def away(*_: Any) -> None:
        raise ArchiveUnavailable("writing in the archive failed", "OSError", "look")

    monkeypatch.setattr(archive, "write", away)
    one.sample(NOON)
    one.sample(NOON + timedelta(seconds=10))
    assert kept(archive) == [] and "2 samples wait" in capsys.readouterr().out
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

    def look(whole: bool) -> Rows:
        ended.set()
        return looks(whole)

    Recording("a->b", look, archive, 10.0, timedelta(days=1), ended).run()
    assert looks.whole == [True] and kept(archive) == [1]
