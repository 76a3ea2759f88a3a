"""The files by which a drill's clients and its steps tell each other what happened."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from kafka_dr.actions.drill.ledger import DrillLedger


@pytest.fixture
def ledger(tmp_path: Path) -> DrillLedger:
    """A ledger whose folder exists."""
    made = DrillLedger(tmp_path / "drill" / "private")
    made.begin()
    return made


def test_numbers_of_all_writers_come_back(ledger: DrillLedger) -> None:
    """Whoever wrote them, and in however many parts; also by another process."""
    ledger.add("preparation", range(3))
    ledger.add("clients", [100])
    ledger.add("clients", [])
    ledger.add("clients", [102, 101])
    assert sorted(DrillLedger(ledger.folder).numbers()) == [0, 1, 2, 100, 101, 102]


def test_nothing_was_acknowledged_before_anything_is_written(ledger: DrillLedger) -> None:
    """Nor in a folder that nobody has made."""
    assert not list(ledger.numbers())
    assert not list(DrillLedger(ledger.folder / "missing").numbers())


def test_a_line_without_its_end_is_no_number(ledger: DrillLedger) -> None:
    """A process was killed while it wrote: half a number would be another record's."""
    ledger.add("clients", [1234567])
    with (ledger.folder / "acknowledged.clients").open("a") as file:
        file.write("12345")
    assert list(ledger.numbers()) == [1234567]


def test_a_torn_line_takes_no_number_with_it(ledger: DrillLedger) -> None:
    """The next try writes behind it: the torn line stays no number, and all others count."""
    path = ledger.folder / "acknowledged.clients"
    for torn in ("12345", "9", ""):
        with path.open("a") as file:
            file.write(torn)
        ledger.add("clients", [])
        ledger.add("clients", [1_000_001, 1_000_002])
    with path.open("a") as file:
        file.write("77")
    assert list(ledger.numbers()) == [1_000_001, 1_000_002] * 3


def test_the_clients_are_asked_to_stop(ledger: DrillLedger) -> None:
    """Once is enough, and twice does no harm."""
    assert not ledger.must_stop
    ledger.ask_to_stop()
    ledger.ask_to_stop()
    assert ledger.must_stop and DrillLedger(ledger.folder).must_stop


def test_a_drill_without_a_folder_has_nobody_to_stop(tmp_path: Path) -> None:
    """Asking makes no folder: the clean-up of a drill that made nothing leaves nothing behind."""
    ledger = DrillLedger(tmp_path / "never")
    ledger.ask_to_stop()
    assert not ledger.must_stop and not ledger.has_begun and ledger.figures() is None
    assert not ledger.folder.exists()


def test_the_clients_say_what_they_did(ledger: DrillLedger) -> None:
    """Nothing while they run."""
    assert not ledger.has_begun
    ledger.say_begun()
    assert ledger.has_begun and ledger.figures() is None
    ledger.say_ended({"written": 7, "refused": 0})
    assert DrillLedger(ledger.folder).figures() == {"written": 7, "refused": 0}


def test_clients_that_are_about_to_end_have_not_ended(ledger: DrillLedger) -> None:
    """The file is there a moment before its content."""
    (ledger.folder / "clients-ended.json").touch()
    assert ledger.figures() is None


def test_only_the_owner_reads_it(ledger: DrillLedger) -> None:
    """As all that Switchback stores."""
    ledger.add("clients", [1])
    ledger.say_begun()
    ledger.ask_to_stop()
    ledger.say_ended({})
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (ledger.folder, *ledger.folder.iterdir())}
    assert modes.pop("private") == 0o700 and len(modes) == 4 and set(modes.values()) == {0o600}


def test_the_routing_record_lies_beside_it(ledger: DrillLedger) -> None:
    """The clients follow the record that the passes change."""
    assert ledger.routing.parent == ledger.folder
