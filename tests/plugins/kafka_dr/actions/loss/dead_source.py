"""A planned failover whose source died, and the run that continues it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from kafka_dr.actions.groups.at_rest import positions_frame
from kafka_dr.actions.scope.position_frames import partitions_frame
from kafka_dr.hooks.brokers.group_requests import Position
from kafka_dr.procedure.run import Run
from kafka_dr.steps.shared.close_procedure import CloseProcedure
from kafka_dr.steps.shared.open_procedure import OpenProcedure
from kafka_dr.vocabulary import Entry, Step

from tests.support.bench import FENCE, GRANT, ORDERS, PAIR

EARLIER, LATER = "planned_failover-r1", "unplanned_failover-u1"
OPEN, ASSESS, TRANSLATE = Step.OPEN_PROCEDURE, Step.ASSESS_DATA_LOSS, Step.TRANSLATE_OFFSETS
PROVING = (
    Step.FENCE_PRODUCERS,
    Step.DRAIN_CONSUMERS,
    Step.WAIT_FOR_ZERO_LAG,
    Step.STOP_MIRROR_MAKER,
    Step.TRANSLATE_OFFSETS,
)
AWAY = {"error": "KafkaUnavailable", "reason": "asking primary failed", "seen": "no answer", "next_step": "look"}
MISSING = [
    {"topic": "orders", "partition": 0, "from_offset": 30, "to_offset": 33, "records": 3, "reason": "not on the target"}
]


def mirrored(bench: Any, count: int) -> None:
    """The target's log: so many different records."""
    bench.clusters["standby"].log_ends[ORDERS] = count
    bench.clusters["standby"].records[ORDERS] = {offset: f"{offset}" for offset in range(count)}


def planned(
    bench: Any,
    until: Step | None = Step.TRANSLATE_OFFSETS,
    fenced_at: str | None = "now",
    holes: list[dict[str, Any]] = [],
) -> Run:
    """A planned run that got as far as one of its proving steps; its source ended at 100, and died in the next step."""
    source = bench.clusters["primary"]
    source.log_ends[ORDERS], source.committed = (
        100,
        {
            "billing": {ORDERS: Position(100)},
            "audit": {ORDERS: Position(60)},
        },
    )
    bench.clusters["standby"].log_ends.setdefault(ORDERS, 100)
    procedure = bench.planned(groups=("billing", "audit"))
    reached = PROVING[: PROVING.index(until) + 1] if until else ()
    for step in reached:
        prove(bench, procedure, step, fenced_at, holes)
    procedure.authority.write(
        PROVING[len(reached)] if len(reached) < len(PROVING) else Step.COMMIT_GROUPS, Entry.INTENT, {"try": 1}
    )
    procedure.authority.write(
        PROVING[len(reached)] if len(reached) < len(PROVING) else Step.COMMIT_GROUPS, Entry.FAILURE, AWAY
    )
    source.away = True
    return procedure


def prove(
    bench: Any, procedure: Run, step: Step, fenced_at: str | None = "now", holes: list[dict[str, Any]] = []
) -> None:
    """One proving step of the planned run is done."""
    source, target = bench.clusters["primary"], bench.clusters["standby"]
    if step is Step.FENCE_PRODUCERS:
        procedure.authority.write(step, Entry.INTENT, {"adds_acl_entries": [vars(FENCE)]})
        source.acls |= {GRANT, FENCE}
        ends = partitions_frame({ORDERS: source.log_ends[ORDERS]}, "offset")
        cut_off = procedure.artifacts.save("cut_off", ends)
        bench.done(procedure, step, cut_off=cut_off, fenced_at=fenced_at and procedure.now())
    elif step is Step.DRAIN_CONSUMERS:
        bench.done(
            procedure,
            step,
            groups=["audit", "billing"],
            positions=procedure.artifacts.save("source_positions", positions_frame(procedure, ["audit", "billing"])),
        )
    elif step is Step.WAIT_FOR_ZERO_LAG:
        bench.done(procedure, step)
    elif step is Step.STOP_MIRROR_MAKER:
        bench.workers["standby"].states.update(dict.fromkeys(("p.source", "p.checkpoint"), "STOPPED"))
        bench.done(
            procedure,
            step,
            boundary=procedure.artifacts.save(
                "boundary", partitions_frame({ORDERS: target.log_ends[ORDERS]}, "offset")
            ),
        )
    else:
        bench.done(procedure, step, holes=holes)


def continued(bench: Any) -> Run:
    """From now on the bench's steps are those of the run that continues; its open_procedure is done."""
    as_later(bench)
    OpenProcedure(task_id=OPEN.value).execute(bench.context("u1"))
    return bench.procedure("u1")


def as_later(bench: Any) -> None:
    """From now on the bench's steps are those of the run that continues."""
    bench.dag_id, bench.params = "unplanned_failover", bench.params | {"continue_procedure": EARLIER}


def as_earlier(bench: Any) -> None:
    """From now on the bench's steps are those of the planned run."""
    bench.dag_id, bench.params = (
        "planned_failover",
        {name: value for name, value in bench.params.items() if name != "continue_procedure"},
    )


def lost(bench: Any, procedure: Run, state: str = "lost") -> None:
    """Its source is confirmed to be lost."""
    told = {
        "override": None if state == "lost" else "why",
        "overridden": state != "lost",
        "verdict": {"state": state, "rounds": 3, "views": []},
        "window_seconds": 1.0,
    }
    bench.done(procedure, Step.CONFIRM_SOURCE_LOST, state=state, **told)


def evidence(bench: Any, procedure_id: str) -> dict[str, Any]:
    """The evidence on disk."""
    return json.loads((bench.folder / "evidence" / procedure_id / "evidence.json").read_text())


def page(bench: Any, procedure_id: str) -> str:
    """The page on disk."""
    return (bench.folder / "evidence" / procedure_id / "evidence.html").read_text()


def close(bench: Any, run_id: str = "u1", outcome: str = "") -> None:
    """Execute close_procedure; red with an outcome."""
    step = CloseProcedure(task_id=Step.CLOSE_PROCEDURE.value)
    if not outcome:
        step.execute(bench.context(run_id))
        return
    with pytest.raises(AirflowFailException, match=outcome):
        step.execute(bench.context(run_id))


def taken(bench: Any) -> None:
    """Somebody else has the pair by now."""
    ended(bench)
    bench.opened("r2")


def refused(step: Step, error: str) -> Callable[..., None]:
    """A later step looked again, and found it changed."""
    return lambda bench, procedure: procedure.authority.write(
        step, Entry.REFUSAL, {"error": error, "reason": "Somebody wrote", "seen": "x", "next_step": "y"}
    )


def ended(bench: Any) -> None:
    """It returned, and let go of the lease."""
    procedure = bench.procedure("r1")
    bench.journal.release_lease(PAIR, procedure.id, procedure.lease.epoch, "returned")
