"""Checks run side by side, each by itself; what needs something that failed is not looked at."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from itertools import count

import pytest
from kafka_dr.actions.doctor import units
from kafka_dr.actions.doctor.units import Unit, run_units
from kafka_dr.domain.doctor.finding import InstallationFinding
from kafka_dr.errors import BadInput, KafkaUnavailable


def found(reason: str = "r", may_pass: bool = False) -> InstallationFinding:
    """A finding."""
    return InstallationFinding("c", "a", reason, "seen", "do", may_pass)


def unit(name: str, look: Callable[[], Iterable[InstallationFinding]] = list, **more: tuple[str, ...]) -> Unit:
    """A unit; its name is `c NAME`."""
    return Unit("c", name, look, **more)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "_PAUSE_SECONDS", 0.01)


def test_what_needs_a_failed_unit_is_not_looked_at() -> None:
    """Nor what needs that one in turn; what comes only after it is."""
    ended = run_units(
        [
            unit("last", needs=("c next",)),
            unit("next", needs=("c broken",)),
            unit("later", after=("c broken",)),
            unit("broken", lambda: [found()]),
            unit("of nothing", needs=("c no such unit",)),
        ],
        0.0,
        str,
    )
    assert ended.findings == {"c broken": [found()], "c later": [], "c of nothing": []}
    assert ended.skipped == {"c next": "because of c broken", "c last": "because of c next"}


def test_an_error_of_one_unit_is_its_finding() -> None:
    """With what was seen and what to do, of Switchback's errors; of others their names."""

    def refused() -> list[InstallationFinding]:
        raise BadInput("no cluster", "nothing", "name one")

    def broken() -> list[InstallationFinding]:
        raise ZeroDivisionError("oh")

    ended = run_units([unit("one", refused), unit("two", broken)], 0.0, str)
    (one,), (two,) = ended.findings["c one"], ended.findings["c two"]
    assert (one.reason, one.seen, one.next_step, one.may_pass) == ("No cluster", "nothing", "name one", False)
    assert two.reason == "c two could not be examined" and two.seen == "ZeroDivisionError: oh"


def test_units_run_side_by_side() -> None:
    """Two that wait for each other both end."""
    barrier = threading.Barrier(2, timeout=10)

    def look() -> list[InstallationFinding]:
        barrier.wait()
        return []

    assert run_units([unit("one", look), unit("two", look)], 0.0, str).findings == {"c one": [], "c two": []}


def test_what_passes_is_looked_at_again() -> None:
    """Until it is gone, or has stood long enough; what cannot pass is looked at once."""
    looks = count()

    def passing() -> list[InstallationFinding]:
        if next(looks) < 3:
            raise KafkaUnavailable("away", "no answer", may_pass=True)
        return []

    certain = count()

    def staying() -> list[InstallationFinding]:
        next(certain)
        return [found()]

    ended = run_units(
        [unit("passes", passing), unit("stays", lambda: [found("s", may_pass=True)]), unit("certain", staying)],
        0.5,
        str,
    )
    assert ended.findings == {"c passes": [], "c stays": [found("s", may_pass=True)], "c certain": [found()]}
    assert next(looks) == 4 and next(certain) == 1


def test_a_unit_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """And named; the others have ended long before."""
    monkeypatch.setattr(units, "LIMIT_SECONDS", 0.2)
    hangs = threading.Event()

    def look() -> list[InstallationFinding]:
        hangs.wait(60)
        return []

    began = time.monotonic()
    ended = run_units([unit("hangs", look), unit("fine")], 1.0, str)
    hangs.set()
    assert time.monotonic() - began < 30 and ended.findings["c fine"] == []
    (hung,) = ended.findings["c hangs"]
    assert (hung.reason, hung.seen) == ("c hangs did not end in time", "no result after 1 s")
