"""Which drills schedule_drills cleans up: they made something, are over, and were not cleaned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kafka_dr.actions.drill.janitor import JANITOR, JanitorAuthority, left_drills
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import DrillCleaned
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Entry, Outcome, Step

from tests.support.bench import Bench
from tests.support.drills.drill_bench import NOTHING, drill_bench, prepared_drill
from tests.support.facts import tell


@pytest.fixture
def bench(make_bench: Callable[..., Bench]) -> Bench:
    """Two clusters, with workers for drills beside both."""
    return drill_bench(make_bench)


def close(drill: Run) -> Run:
    """Close a drill, whatever it has cleaned."""
    tell(drill, Step.CLOSE_PROCEDURE, Entry.CLOSED, {})
    drill.journal.release_lease(drill.pair, drill.id, drill.lease.epoch, Outcome.FAILED)
    return drill


def clean(drill: Run, authority: Any = None, cleaned: bool = True) -> None:
    """Write what a clean-up writes: its intent, and whether everything was removed."""
    left = () if cleaned else ("topic x: no answer",)
    authority = authority or drill.authority
    record_fact(authority, Step.CLEAN_DRILL, NOTHING)
    record_fact(authority, Step.CLEAN_DRILL, DrillCleaned(cleaned=cleaned, left=left))


def left(bench: Bench) -> list[str]:
    """Return the run ids of the drills that are to be cleaned up."""
    return [opened.run_id for opened in left_drills(bench.journal)]


def test_a_drill_that_runs_is_left_alone(bench: Bench) -> None:
    """Within its time to live it cleans up itself."""
    prepared_drill(bench)
    assert left(bench) == []


def test_a_drill_that_was_closed_is_cleaned_up(bench: Bench) -> None:
    """It was preempted before its clean-up."""
    drill = close(prepared_drill(bench))
    (opened,) = left_drills(bench.journal)
    assert (opened.dag_id, opened.run_id, opened.source, opened.target) == (
        drill.identity.dag_id,
        "r1",
        "primary",
        "standby",
    )


def test_a_drill_that_has_outlived_its_time_is_cleaned_up(bench: Bench) -> None:
    """Its DAG run was killed: nobody has closed it."""
    prepared_drill(bench, lives_seconds=-1)
    assert left(bench) == ["r1"]


def test_a_drill_that_made_nothing_has_left_nothing(bench: Bench) -> None:
    """It was refused, or only observed: there is no intent of it."""
    close(bench.opened())
    bench.opened("r2").authority.write(Step.PREPARE_DRILL, Entry.INTENT, {"try": 1})
    assert left(bench) == []


@pytest.mark.parametrize("lives_seconds", [3600.0, -1.0])
def test_a_drill_that_has_cleaned_up_is_left_alone(bench: Bench, lives_seconds: float) -> None:
    """Before it is closed, while it waits for its signature, and afterwards."""
    drill = prepared_drill(bench, lives_seconds=lives_seconds)
    clean(drill)
    assert left(bench) == []
    close(drill)
    assert left(bench) == []


def test_a_drill_that_has_cleaned_up_half_is_cleaned_up(bench: Bench) -> None:
    """The next hour tries again, until nothing is left."""
    drill = prepared_drill(bench)
    clean(drill, cleaned=False)
    assert left(bench) == []
    close(drill)
    assert left(bench) == ["r1"]


def test_what_the_janitor_has_cleaned_is_clean(bench: Bench) -> None:
    """Its entries stand under its own name, and name the drill; another drill is not meant."""
    one = close(prepared_drill(bench))
    two = close(prepared_drill(bench, "r2"))
    janitor = JanitorAuthority(bench.journal, one.id)
    clean(one, janitor, cleaned=False)
    assert left(bench) == ["r1", "r2"]
    clean(one, janitor)
    assert left(bench) == ["r2"]
    assert bench.journal.entries(JANITOR) and all(
        entry.payload["drill_id"] == one.id for entry in bench.journal.entries(JANITOR)
    )
    clean(two, JanitorAuthority(bench.journal, two.id))
    assert left(bench) == []


def test_an_intent_to_clean_is_no_clean_up(bench: Bench) -> None:
    """The clean-up was killed."""
    drill = prepared_drill(bench, lives_seconds=-1)
    record_fact(drill.authority, Step.CLEAN_DRILL, NOTHING)
    assert left(bench) == ["r1"]


def test_a_drill_with_two_intents_is_cleaned_up_once(bench: Bench) -> None:
    """prepare_drill was tried twice."""
    drill = prepared_drill(bench, lives_seconds=-1)
    (first,) = [entry for entry in bench.entries(Step.PREPARE_DRILL) if entry.kind == Entry.INTENT]
    drill.authority.write(Step.PREPARE_DRILL, Entry.INTENT, dict(first.payload))
    assert left(bench) == ["r1"]
