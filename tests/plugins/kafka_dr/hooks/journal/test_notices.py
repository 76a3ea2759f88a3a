"""Claims of notices: one process sends a notice, however many find it due."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from kafka_dr.errors import BadInput
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.hooks.journal.notices import NoticeState

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
PLUGINS = str(Path(__file__).parents[5] / "plugins")
CLAIMER = """
import sys
sys.path.insert(0, sys.argv[1])
from kafka_dr.hooks.journal.journal import Journal
journal = Journal(sys.argv[2])
print(*[number for number in range(60) if journal.claim_notice(f"p/{number}", "smtp")])
"""


class Clock:
    """A clock that stands until it is set."""

    now = NOON

    def __call__(self) -> datetime:
        """Return the time."""
        return self.now


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: Any, tmp_path: Path) -> str:
    """A fresh database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'journal.db'}"
    server = request.getfixturevalue("postgresql")
    return server.url(server.make_database())


@pytest.fixture
def clock() -> Clock:
    """A clock at noon."""
    return Clock()


@pytest.fixture
def journal(url: str, clock: Clock) -> Journal:
    """A journal by that clock."""
    return Journal(url, clock=clock)


def test_a_notice_is_claimed_once_on_each_route(journal: Journal, url: str) -> None:
    """The second claim fails, whether the first was settled or not, also in another process."""
    assert journal.claim_notice("p/failed", "smtp") and journal.claim_notice("p/failed", "slack")
    assert not journal.claim_notice("p/failed", "smtp") and not Journal(url).claim_notice("p/failed", "smtp")
    for state in (NoticeState.SENT, NoticeState.NOT_SENT, NoticeState.UNKNOWN):
        journal.settle_notice("p/failed", "smtp", state)
        assert not journal.claim_notice("p/failed", "smtp")


def test_a_notice_that_was_not_sent_is_claimed_again(journal: Journal, clock: Clock) -> None:
    """With the time and the number of its tries."""
    assert journal.claim_notice("p/failed", "smtp")
    journal.settle_notice("p/failed", "smtp", NoticeState.WAITING, "refused")
    clock.now += timedelta(seconds=10)
    assert journal.claim_notice("p/failed", "smtp") and not journal.claim_notice("p/failed", "smtp")
    (record,) = journal.notices(["p/failed"])
    assert (record.state, record.tries, record.at) == (NoticeState.CLAIMED, 2, clock.now)


def test_what_became_of_notices_is_read_by_id_and_by_state(journal: Journal) -> None:
    """With the reason, and nothing of others."""
    for notice in ("one", "two", "three"):
        journal.claim_notice(notice, "smtp")
    journal.settle_notice("two", "smtp", NoticeState.UNKNOWN, "no answer")
    (two,) = journal.notices(["two", "four"])
    assert (two.route, two.state, two.at, two.detail) == ("smtp", NoticeState.UNKNOWN, NOON, "no answer")
    assert {record.notice for record in journal.notices(state=NoticeState.CLAIMED)} == {"one", "three"}
    assert journal.notices() == []


def test_five_processes_claim_each_notice_once(url: str) -> None:
    """Each notice is claimed by exactly one of them."""
    Journal(url)
    command = [sys.executable, "-c", CLAIMER, PLUGINS, url]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(5)]
    claimed = [number for process in running for number in process.communicate(timeout=120)[0].split()]
    assert sorted(map(int, claimed)) == list(range(60))


def test_a_name_that_cannot_be_stored_is_refused(journal: Journal) -> None:
    """Before anything is written."""
    with pytest.raises(BadInput, match="table notices"):
        journal.claim_notice("x" * 401, "smtp")


def test_entries_after_a_sequence_number(journal: Journal, clock: Clock) -> None:
    """Only of procedures that wrote lately, but of these all entries."""
    journal.append("old", "s", "note", 0, 1)
    first = journal.append("new", "s", "note", 0, 2)
    clock.now += timedelta(days=9)
    last = journal.append("new", "s", "note", 0, 3)
    assert journal.entries_after(0, since=NOON + timedelta(days=1)) == [first, last]
    assert journal.entries_after(first.sequence) == [last]
    assert len(journal.entries_after(0)) == 3
