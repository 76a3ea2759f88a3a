"""Which flow's drill is started: the first that is due, unless somebody holds the clusters or the flow is at rest."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, DagRunTriggerException
from kafka_dr.actions.readiness.document import document_path
from kafka_dr.domain.readiness.report import FORM
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.procedure.entries import DrillJudged, ProcedureOpened
from kafka_dr.steps.always_on.start_due_drill import StartDueDrill
from kafka_dr.vocabulary import Entry, Step

from tests.support.bench import PAIR, Bench
from tests.support.drills.drill_bench import drill_bench

FORTH, BACK = ("primary", "standby"), ("standby", "primary")


@pytest.fixture
def bench(make_bench: Callable[..., Bench]) -> Bench:
    """Two clusters with a flow in each direction, both of which run, and which have never seen a drill."""
    return both_run(drill_bench(make_bench))


def both_run(bench: Bench) -> Bench:
    """Let both flows run, as under default naming."""
    set_flow(bench, BACK, "RUNNING")
    return bench


def set_flow(bench: Bench, flow: tuple[str, str], state: str) -> None:
    """Give the source connector of a flow a state."""
    bench.workers[flow[1]].states[f"{flow[0][0]}.source"] = state


def started() -> Any:
    """Run the task; return what it triggers, or None if no drill is due."""
    task = StartDueDrill(task_id="start_due_drill")
    try:
        assert task.execute({}) == "no drill is due"
    except DagRunTriggerException as trigger:
        return trigger
    return None


def flow_started() -> tuple[str, str] | None:
    """Return source and target of the drill that is started; None if none is due."""
    trigger = started()
    return trigger and (trigger.conf["source"], trigger.conf["target"])


def drilled(bench: Bench, flow: tuple[str, str] = FORTH, days_ago: float = 5.0, verdict: str = "passed") -> None:
    """Write a drill of a flow that began and ended so many days ago."""
    at = datetime.now(UTC) - timedelta(days=days_ago)
    (source, target), journal = flow, Journal(bench.url, clock=lambda: at)
    name = f"failover_drill-{source}-{days_ago:g}"
    opened = opening(flow, at)
    journal.append(name, Step.OPEN_PROCEDURE, opened.kind, 1, opened.payload())
    judged = DrillJudged(
        source=source,
        target=target,
        drill_kind="canary",
        verdict=verdict,  # type: ignore[arg-type]
        fingerprint={},
        procedure_id=name,
        ended_at=at.isoformat(),
    )
    journal.append(name, Step.CLOSE_PROCEDURE, judged.kind, 1, judged.payload())


def opening(flow: tuple[str, str], at: datetime, dag_id: str = "failover_drill") -> ProcedureOpened:
    """Return the opening of a run of a flow."""
    source, target = flow
    return ProcedureOpened(
        dag_id=dag_id,
        run_id="r",
        source=source,
        target=target,
        reason="due",
        triggered_at=at.isoformat(),
        request={"source": source, "target": target, "reason": "due"},
    )


def find(bench: Bench, flow: tuple[str, str], finding: str, hours_ago: float = 9.0) -> None:
    """Write a flow's readiness document with one finding."""
    path = document_path(str(bench.folder / "evidence"), *flow)
    path.parent.mkdir(parents=True, exist_ok=True)
    since = (datetime.now(UTC) - timedelta(hours=hours_ago)).isoformat()
    path.write_text(json.dumps({"form": FORM, "findings": [{"id": finding, "since": since, "text": "naming changed"}]}))


def test_a_flow_without_a_drill_gets_one(bench: Bench) -> None:
    """As a run of failover_drill, with the flow and the reason, and no kind: the DAG chooses its own default."""
    trigger = started()
    assert trigger.trigger_dag_id == "failover_drill"
    assert (trigger.conf["source"], trigger.conf["target"]) == FORTH and "kind" not in trigger.conf
    assert "no drill of this flow has ended yet" in trigger.conf["reason"]


def test_one_flow_after_the_other(bench: Bench) -> None:
    """A flow whose drill is young is left out; the next flow has its turn, and then nothing is due."""
    drilled(bench, FORTH)
    assert flow_started() == BACK
    drilled(bench, BACK)
    assert started() is None


@pytest.mark.parametrize(
    ("days_ago", "verdict", "due"),
    [
        (91.9, "passed", False),
        (92.1, "passed", True),
        (28.9, "failed", False),
        (29.1, "failed", True),
        (40, "conditional", False),
    ],
)
def test_due_by_the_objectives_of_the_flow(bench: Bench, days_ago: float, verdict: str, due: bool) -> None:
    """Every 92 days; a failed one is repeated within 30 days, less a day."""
    drilled(bench, BACK)
    drilled(bench, FORTH, days_ago, verdict)
    assert flow_started() == (FORTH if due else None)


def test_the_newest_drill_counts(bench: Bench) -> None:
    """An old one, and one that failed before, are settled by a later one."""
    drilled(bench, BACK)
    for days_ago, verdict in ((200, "passed"), (60, "failed"), (3, "passed")):
        drilled(bench, FORTH, days_ago, verdict)
    assert started() is None


@pytest.mark.parametrize(
    ("finding", "hours_ago", "due"),
    [("changed_since_drill", 2, True), ("changed_since_drill", 0.5, False), ("lag", 2, False)],
)
def test_due_after_a_change_that_has_settled(bench: Bench, finding: str, hours_ago: float, due: bool) -> None:
    """By the finding of readiness_check, once it has stood for an hour."""
    drilled(bench, FORTH)
    drilled(bench, BACK)
    find(bench, BACK, finding, hours_ago)
    assert flow_started() == (BACK if due else None)


def test_never_twice_within_a_day(bench: Bench) -> None:
    """Whatever has changed, and although the drill has not ended: it was killed."""
    drilled(bench, BACK)
    drilled(bench, FORTH, days_ago=0.5)
    find(bench, FORTH, "changed_since_drill")
    assert started() is None


@pytest.mark.parametrize("name", [PAIR, f"drill:{PAIR}"])
def test_none_is_started_while_the_clusters_are_held(bench: Bench, name: str) -> None:
    """By a procedure or by another drill, of either flow; when the lease is released, it is."""
    epoch = bench.journal.take_lease(name, "somebody")
    assert started() is None
    bench.journal.release_lease(name, "somebody", epoch, "completed")
    assert flow_started() == FORTH


@pytest.mark.parametrize("state", ["STOPPED", "PAUSED"])
@pytest.mark.parametrize(("flow", "opposite"), [(FORTH, BACK), (BACK, FORTH)])
def test_a_flow_at_rest_is_left_out(bench: Bench, flow: tuple[str, str], opposite: tuple[str, str], state: str) -> None:
    """The opposite flow is drilled, and then nothing is due; no readiness document is needed to know it."""
    set_flow(bench, flow, state)
    assert flow_started() == opposite
    drilled(bench, opposite)
    assert started() is None


def test_an_old_document_proves_nothing_of_the_flow_today(bench: Bench) -> None:
    """The clients have moved since the last readiness check."""
    find(bench, FORTH, "flow_at_rest")
    assert flow_started() == FORTH
    drilled(bench, FORTH)
    find(bench, BACK, "changed_since_drill")
    set_flow(bench, BACK, "STOPPED")
    assert started() is None


def test_a_flow_that_was_never_set_up_is_left_out(bench: Bench) -> None:
    """Its connectors do not exist yet: an hour after the other, the task finds nothing to do."""
    bench.workers["primary"].states.clear()
    drilled(bench, FORTH)
    assert started() is None


def test_a_flow_that_shall_run_and_fails_is_drilled(bench: Bench) -> None:
    """The drill then fails, and says that no failover would work."""
    set_flow(bench, FORTH, "FAILED")
    assert flow_started() == FORTH


def test_a_flow_whose_state_is_unknown_is_left_out(bench: Bench) -> None:
    """Another flow is drilled; without another one the task fails with what did not answer."""
    bench.workers["standby"].away = True
    assert flow_started() == BACK
    drilled(bench, BACK)
    with pytest.raises(AirflowFailException, match=r"GET /connectors to Connect failed.*Page: .*start_due_drill"):
        started()
    drilled(bench, FORTH)
    assert started() is None


def test_the_starts_of_procedures_and_of_the_other_flow_are_no_starts_of_a_drill(bench: Bench) -> None:
    """Only a drill of this flow keeps this flow's drill for a day."""
    now = datetime.now(UTC)
    for name, fact in {"one": opening(BACK, now), "two": opening(FORTH, now, "planned_failover")}.items():
        bench.journal.append(name, Step.OPEN_PROCEDURE, Entry.OPENED, 1, fact.payload())
    assert flow_started() == FORTH


@pytest.mark.parametrize("settings", [{"scheduled": False}, None])
def test_nothing_is_started_where_only_people_start_drills(
    make_bench: Callable[..., Bench], settings: dict[str, Any] | None
) -> None:
    """By the topology, which switches the calendar off or knows nothing of drills."""
    _ = drill_bench(make_bench, settings) if settings else make_bench()
    assert started() is None


def test_without_workers_for_drills_a_drill_observes(make_bench: Callable[..., Bench]) -> None:
    """It is due all the same."""
    drill_bench(make_bench, {"connect": {}, "clients": {}, "principals": []})
    assert flow_started() == FORTH


def test_a_topology_that_cannot_be_read_is_an_error(bench: Bench) -> None:
    """The message names the page."""
    bench.topology.write_text("{}")
    with pytest.raises(AirflowFailException, match=r"Page: .*start_due_drill"):
        started()
