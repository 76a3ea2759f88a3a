"""Where clients are by the journal alone: only what a step has proven is said, all else is unknown."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from kafka_dr.domain.evidence.live_status import ProcedureStatus, live_status
from kafka_dr.domain.fencing.armed_fence import LatestMove
from kafka_dr.domain.overview.clients import Writes, place_after, place_while_held, unmoved_place
from kafka_dr.vocabulary import Entry, Step

from tests.support.facts import entry

NOW = datetime(2026, 11, 27, 9, 0, tzinfo=UTC)
MOVE = LatestMove("p-1", "primary", "standby")
OPENED = {"dag_id": "planned_failover", "run_id": "r", "source": "primary", "target": "standby", "reason": "r"}


def line(step: Step, kind: Entry = Entry.OUTCOME, minutes: int = 0, **payload: Any) -> Any:
    """One entry of the procedure."""
    return entry(step, kind, NOW + timedelta(minutes=minutes), **payload)


def held(*steps: tuple[Step, Entry], dag_id: str = "planned_failover") -> ProcedureStatus:
    """A procedure that has written these entries."""
    lines = [line(Step.OPEN_PROCEDURE, Entry.OPENED, **(OPENED | {"dag_id": dag_id}))]
    lines += [
        line(step, kind, **({"try": 1} if kind is Entry.INTENT and step != Step.OPEN_TARGET else {}))
        for step, kind in steps
    ]
    status = live_status("p-1", lines, NOW)
    assert status is not None
    return status


def writes(place: Any) -> dict[str, Writes]:
    """Cluster -> whether it accepts writes."""
    return {one.alias: one.writes for one in place.writes}


FENCED, OPEN, SENT = (
    line(Step.FENCE_PRODUCERS),
    line(Step.OPEN_TARGET, minutes=1, opened_at="x"),
    line(Step.REDIRECT_CLIENTS, minutes=2),
)


def test_a_completed_move_is_known_on_both_sides() -> None:
    """Since clients were sent."""
    place = place_after(MOVE, [FENCED, OPEN, SENT])
    assert (place.alias, place.since, place.moved_by) == ("standby", NOW + timedelta(minutes=2), "p-1")
    assert writes(place) == {"standby": Writes.ACCEPTED, "primary": Writes.REFUSED}


@pytest.mark.parametrize("lines", [[], [FENCED], [FENCED, OPEN]])
def test_a_move_that_did_not_end_says_no_cluster(lines: list[Any]) -> None:
    """Neither before the target is open, nor before clients were sent there."""
    place = place_after(MOVE, lines)
    assert place.alias is None and place.since is None


def test_what_was_not_fenced_is_unknown() -> None:
    """Without an outcome of a fence nothing is said to refuse writes."""
    assert writes(place_after(MOVE, [OPEN, SENT]))["primary"] is Writes.UNKNOWN


def test_a_contested_move_proves_nothing() -> None:
    """Whatever its steps have proven before."""
    place = place_after(MOVE, [FENCED, OPEN, SENT], contested="somebody lifts the fence")
    assert place.alias is None and set(writes(place).values()) == {Writes.UNKNOWN}


def test_clients_that_nobody_moved_prove_nothing() -> None:
    """No cluster is said to accept or refuse writes, and the source is named only if the flow is the one in use."""
    for in_use in ("primary", "standby", None):
        place = unmoved_place("primary", "standby", in_use)
        assert place.alias == in_use and set(writes(place).values()) == {Writes.UNKNOWN} and place.changed is None


BEGUN, DONE = Entry.INTENT, Entry.OUTCOME


@pytest.mark.parametrize(
    ("steps", "source", "target"),
    [
        ([(Step.FENCE_PRODUCERS, BEGUN)], Writes.UNKNOWN, Writes.UNKNOWN),
        ([(Step.FENCE_PRODUCERS, DONE)], Writes.REFUSED, Writes.UNKNOWN),
        ([(Step.FENCE_PRODUCERS, DONE), (Step.OPEN_TARGET, BEGUN)], Writes.REFUSED, Writes.UNKNOWN),
        ([(Step.FENCE_PRODUCERS, DONE), (Step.OPEN_TARGET, DONE)], Writes.REFUSED, Writes.ACCEPTED),
        ([(Step.FENCE_PRODUCERS, DONE), (Step.RETURN_TO_SOURCE, BEGUN)], Writes.UNKNOWN, Writes.UNKNOWN),
    ],
)
def test_a_running_procedure_holds_clients_in_between(
    steps: list[tuple[Step, Entry]], source: Writes, target: Writes
) -> None:
    """From the first step that stops clients until clients were sent somewhere."""
    place = place_while_held(held(*steps))
    assert place is not None and place.alias is None and place.label == "between the clusters"
    assert writes(place) == {"primary": source, "standby": target} and place.changed == NOW


@pytest.mark.parametrize(
    "steps",
    [
        [],
        [(Step.FORECAST, BEGUN)],
        [(Step.FENCE_PRODUCERS, DONE), (Step.RETURN_TO_SOURCE, DONE)],
        [(Step.FENCE_PRODUCERS, DONE), (Step.OPEN_TARGET, DONE), (Step.REDIRECT_CLIENTS, DONE)],
    ],
)
def test_a_procedure_that_stops_no_client_changes_nothing(steps: list[tuple[Step, Entry]]) -> None:
    """Before the fence, after the way back, and once clients were sent, the place is that of the last move."""
    assert place_while_held(held(*steps)) is None
