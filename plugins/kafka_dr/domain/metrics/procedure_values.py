"""Values of procedures, from their journal entries: what holds clusters now, and how procedures ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from kafka_dr.domain.evidence.live_status import ProcedureStatus
from kafka_dr.domain.metrics.series import MetricValue
from kafka_dr.procedure.entries import AnchorsMissed, Line, ProcedureClosed, ProcedureOpened, facts_in, facts_of
from kafka_dr.vocabulary import Outcome

Flow = tuple[str, str]


def values_of_holders(
    flows: Iterable[Flow], holders: Iterable[ProcedureStatus], now: datetime
) -> Iterator[MetricValue]:
    """Yield what procedures do with the clusters of each flow.

    Args:
        flows: source and target of every flow of the topology.
        holders: the procedures that hold a pair of clusters.
    """
    found = {(status.source, status.target): status for status in holders}
    for flow in sorted({*flows, *found}):
        status = found.get(flow)
        yield MetricValue("pair_held", int(status is not None), flow)
        yield MetricValue("procedure_running", int(status is not None and status.outcome is None), flow)
        yield from _fence(flow, status, now)
        yield from _gate(flow, status, now)
        if status is not None and status.outcome is None:
            steps = [step.id for step in status.steps if step.state in ("running", "asking")]
            yield MetricValue("procedure_info", 1, (*flow, status.dag_id, steps[-1] if steps else ""))


def _fence(flow: Flow, status: ProcedureStatus | None, now: datetime) -> Iterator[MetricValue]:
    fence = status.fence if status and status.fence and status.fence.state != "over" else None
    yield MetricValue("fence_on", int(fence is not None), flow)
    if fence is not None and fence.limit is not None:
        yield MetricValue("fence_limit_seconds", fence.limit, flow)
    if fence is not None and fence.returns_at is not None:
        yield MetricValue("fence_seconds_left", (fence.returns_at - now).total_seconds(), flow)


def _gate(flow: Flow, status: ProcedureStatus | None, now: datetime) -> Iterator[MetricValue]:
    question = status.question if status else None
    yield MetricValue("gate_open", int(question is not None), flow)
    if question is not None and question.expires_at is not None:
        yield MetricValue("gate_seconds_left", (question.expires_at - now).total_seconds(), flow)


def values_of_ends(lines: Sequence[Line]) -> Iterator[MetricValue]:
    """Yield the last end of the procedures of each DAG and flow.

    Args:
        lines: entries that opened and closed procedures, in the journal's order.
    """
    opened = {line.procedure_id: fact for line, fact in facts_of(lines, ProcedureOpened)}
    last: dict[tuple[str, str, str], tuple[datetime, str]] = {}
    for line, closed in facts_of(lines, ProcedureClosed):
        run = opened.get(line.procedure_id)
        if run is not None:
            last[run.source, run.target, run.dag_id] = line.at, closed.outcome
    for labels, (at, ended_as) in last.items():
        yield MetricValue("procedure_ended_timestamp_seconds", at.timestamp(), labels)
        for outcome in Outcome:
            yield MetricValue("procedure_outcome", int(outcome == ended_as), (*labels, outcome.value))


def values_of_anchors(lines: Sequence[Line]) -> Iterator[MetricValue]:
    """Yield how often a procedure could not anchor the journal; `lines`: its entries."""
    for run in facts_in(lines, ProcedureOpened)[-1:]:
        yield MetricValue("anchors_missed", len(facts_in(lines, AnchorsMissed)), (run.source, run.target))
