"""Values of procedures: fence, gate and step by the journal's clock, and the last end of each DAG."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from kafka_dr.domain.evidence.live_status import live_status
from kafka_dr.domain.metrics.procedure_values import values_of_anchors, values_of_ends, values_of_holders
from kafka_dr.domain.metrics.series import SERIES, MetricValue
from kafka_dr.vocabulary import Entry, Outcome, Step

from tests.support.facts import entry

NOW = datetime(2026, 11, 27, 9, 0, tzinfo=UTC)
FLOW, BACK = ("primary", "standby"), ("standby", "primary")


def at(seconds: float, step: str, kind: str, about: str = "p-1", **payload: Any) -> Any:
    """One entry, so many seconds before now."""
    return entry(step, kind, NOW - timedelta(seconds=seconds), about, **payload)


def opened(seconds: float, about: str = "p-1", dag_id: str = "planned_failover", flow: tuple[str, str] = FLOW) -> Any:
    """The opening of a run whose fence may last 600 s and whose gates wait 300 s."""
    run = {"dag_id": dag_id, "run_id": "r", "source": flow[0], "target": flow[1], "reason": "why"}
    request = {"deadlines": {"max_fence_seconds": 600.0, "approval_wait_seconds": 300.0}}
    return at(seconds, Step.OPEN_PROCEDURE, Entry.OPENED, about, **run, request=request)


def closed(seconds: float, outcome: str, about: str = "p-1") -> Any:
    """The end of a run."""
    end = {"outcome": outcome, "failing_step": None, "reason_for_outcome": "because"}
    return at(seconds, Step.CLOSE_PROCEDURE, Entry.CLOSED, about, **end)


def holding(*lines: Any) -> dict[str, float]:
    """The values of both flows while a procedure with these entries holds the clusters; {} lines: nobody does."""
    status = live_status("p-1", lines, NOW) if lines else None
    samples = list(values_of_holders([FLOW, BACK], [status] if status else [], NOW))
    assert all(len(sample.labels) == len(SERIES[sample.name].labels) for sample in samples)
    return {" ".join((s.name, s.labels[0], *s.labels[2:])): s.value for s in samples}


def test_nobody_holds_the_clusters() -> None:
    """That is known, so it is 0."""
    names = ("pair_held", "procedure_running", "fence_on", "gate_open")
    assert holding() == {f"{name} {alias}": 0 for name in names for alias in ("primary", "standby")}


def test_a_fence_counts_down() -> None:
    """From its beginning; over after clients were redirected."""
    fence = at(100, Step.FENCE_PRODUCERS, Entry.INTENT, **{"try": 1})
    found = holding(opened(200), fence)
    assert (found["fence_on primary"], found["fence_seconds_left primary"]) == (1, 500)
    assert (found["fence_limit_seconds primary"], found["fence_on standby"]) == (600, 0)
    assert found["procedure_info primary planned_failover fence_producers"] == 1
    found = holding(opened(900), at(700, Step.FENCE_PRODUCERS, Entry.INTENT, **{"try": 1}))
    assert found["fence_seconds_left primary"] == -100, "overdue"
    redirected = at(10, Step.REDIRECT_CLIENTS, Entry.OUTCOME)
    found = holding(opened(200), fence, redirected)
    assert found["fence_on primary"] == 0 and "fence_seconds_left primary" not in found


def test_a_gate_waits() -> None:
    """Until its own deadline, or the fence's, whichever is first."""
    asks = at(60, Step.REVIEW_TRANSLATION, Entry.INTENT, **{"try": 1})
    found = holding(opened(200), asks)
    assert (found["gate_open primary"], found["gate_seconds_left primary"]) == (1, 240)
    assert found["procedure_info primary planned_failover review_translation"] == 1
    found = holding(opened(700), at(580, Step.FENCE_PRODUCERS, Entry.INTENT, **{"try": 1}), asks)
    assert found["gate_seconds_left primary"] == 20


def test_a_failed_procedure_holds_the_clusters_and_does_not_run() -> None:
    """Its fence stands, and no time is left to count."""
    fence = at(100, Step.FENCE_PRODUCERS, Entry.INTENT, **{"try": 1})
    found = holding(opened(200), fence, closed(50, "failed"))
    assert (found["pair_held primary"], found["procedure_running primary"], found["fence_on primary"]) == (1, 0, 1)
    assert "fence_seconds_left primary" not in found and not [n for n in found if n.startswith("procedure_info")]


def test_the_last_end_of_each_dag_counts() -> None:
    """For each flow; a run that was continued by a person ends again, and an end without its opening is left out."""
    lines = [
        opened(900),
        closed(800, "failed"),
        closed(700, "aborted"),
        opened(600, "p-2", "failback", BACK),
        closed(500, "completed", "p-2"),
        closed(400, "failed", "unknown"),
    ]
    samples = list(values_of_ends(lines))
    ended = {s.labels: s.value for s in samples if s.name == "procedure_ended_timestamp_seconds"}
    assert ended == {
        (*FLOW, "planned_failover"): NOW.timestamp() - 700,
        (*BACK, "failback"): NOW.timestamp() - 500,
    }
    chosen = {s.labels for s in samples if s.name == "procedure_outcome" and s.value == 1}
    assert chosen == {(*FLOW, "planned_failover", "aborted"), (*BACK, "failback", "completed")}
    assert len(samples) == 2 + 2 * len(Outcome)


def test_missed_anchors_are_counted() -> None:
    """0 if all were taken; nothing without a procedure."""
    missed = at(100, Step.FORECAST, Entry.NOTE, unread={}, unwritten={"standby": "away"}, anchored_on=["primary"])
    assert list(values_of_anchors([opened(200), missed, missed])) == [MetricValue("anchors_missed", 2, FLOW)]
    assert list(values_of_anchors([opened(200)])) == [MetricValue("anchors_missed", 0, FLOW)]
    assert list(values_of_anchors([])) == []
