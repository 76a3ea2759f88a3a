"""What the journal notes of the recorder's samples: the newest number, never a smaller one, and without delay."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from kafka_dr.domain.sample_chain import SampleStatement, parse_note
from kafka_dr.errors import SystemUnavailable
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.recorder.journal_notes import JournalNotes, name_in_journal

from tests.plugins.kafka_dr.recorder.signed_recorder import FLOW

NAME = name_in_journal(FLOW)


def statement(number: int) -> SampleStatement:
    """A sample of this number."""
    return SampleStatement(FLOW, (None, None), number, number, 0, "rows", None)


def await_note(journal: Journal, number: int) -> None:
    """Wait until the journal notes a sample."""
    ends_at = time.monotonic() + 20
    while (parse_note(journal.last_detail(NAME)) or (0,))[0] != number:
        assert time.monotonic() < ends_at, f"{journal.last_detail(NAME)} is not {number}"
        time.sleep(0.01)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    """A journal on disk."""
    return Journal(f"sqlite:///{tmp_path}/journal.db")


def test_the_newest_sample_is_noted(journal: Journal) -> None:
    """With its digest; a longest name of a flow fits."""
    notes = JournalNotes(FLOW, lambda: journal, 0.0)
    for number in (1, 2, 3):
        notes.note(statement(number))
    await_note(journal, 3)
    assert parse_note(journal.last_detail(NAME)) == (3, statement(3).digest)
    assert journal.last_sign(NAME) is not None and journal.last_detail("another") is None


def test_a_smaller_number_is_never_noted(journal: Journal) -> None:
    """The archive of an earlier recorder has lost its newest samples: the number stays, and its successor learns it."""
    journal.show_life(NAME, statement(7).noted)
    notes = JournalNotes(FLOW, lambda: journal, 0.0)
    notes.note(statement(5))
    ends_at = time.monotonic() + 20
    while notes.noted is None:
        assert time.monotonic() < ends_at
        time.sleep(0.01)
    assert notes.noted == (7, statement(7).digest)
    notes.note(statement(8))
    await_note(journal, 8)


def test_a_journal_that_hangs_or_fails_delays_nothing(journal: Journal, capsys: pytest.CaptureFixture[str]) -> None:
    """A note returns at once; once the journal answers, the newest is noted."""
    gone, answers = SystemUnavailable("the journal is not usable", "of the test", "look"), threading.Event()
    tries = iter([gone, gone, None])

    def opened() -> Journal:
        answers.wait(20)
        error = next(tries)
        if error is not None:
            raise error
        return journal

    notes = JournalNotes(FLOW, opened, 0.0)
    began = time.thread_time()
    for number in range(1, 100):
        notes.note(statement(number))
    assert time.thread_time() - began < 5 and journal.last_detail(NAME) is None
    answers.set()
    await_note(journal, 99)
    told = capsys.readouterr().out
    assert told.count("ERROR primary->standby: the journal does not note samples") == 1
