"""What a drill did not try, and which steps did not run: a report that leaves this out claims too much."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kafka_dr.domain.drill.facts import DrillFacts, DrillPass
from kafka_dr.domain.drill.verdict import CANARY, FULL, OBSERVE
from kafka_dr.procedures import FAILBACK, PLANNED_FAILOVER, PROCEDURES, UNPLANNED_FAILOVER

_BY_KIND: Mapping[str, Sequence[str]] = {
    OBSERVE: (
        "everything that changes something, from the fence to the failback",
        "the time that those steps take: the figures are a forecast",
        "real clients, their rights on the target, and whether they find the target",
        "people: approvals, announcements, who is called",
    ),
    CANARY: (
        "production's connectors: the drill mirrors with connectors and Connect workers of its own",
        "production's ACL patterns: fence and rights were tried on names of the drill alone",
        "real clients, their logins, rights, quotas and settings, and whether they find the target",
        "redirection of clients by production's routing, and the drain, fence and probe hooks",
        "real volume: records, partitions and groups were the drill's own, in the numbers under scope",
        "the loss of a whole site: both clusters, Connect and networks were up",
        "people under pressure: the passes had no gates that a second person had to answer",
    ),
    FULL: ("the loss of a whole site: both clusters, Connect and networks were up",),
}
_TRIED = (PLANNED_FAILOVER.dag_id, UNPLANNED_FAILOVER.dag_id, FAILBACK.dag_id)


def list_untested(facts: DrillFacts) -> list[str]:
    """Return what the drill did not try, each as a sentence without full stop."""
    ended = {one.dag_id for one in facts.passes if one.evidence is not None}
    missing = (
        [] if facts.kind == OBSERVE else [f"{dag_id}: no pass of it ended" for dag_id in _TRIED if dag_id not in ended]
    )
    left_out = [
        f"{row.get('what')}: {row.get('why') or 'no reason is stated'}" for row in facts.scope.get("left_out") or ()
    ]
    return [*_BY_KIND.get(facts.kind, ()), *missing, *facts.could_not, *left_out]


def list_steps_not_run(facts: DrillFacts) -> list[dict[str, Any]]:
    """Return the steps that have not run: `pass` (null for the drill's own steps), `step`, `why`."""
    began = {step["id"] for step in facts.steps}
    why = f"the drill stopped before: {facts.stopped.text}" if facts.stopped else "the drill ended without this step"
    own = [step for step in facts.planned_steps if step not in began]
    rows = [{"pass": None, "step": step, "why": facts.not_run.get(step, why)} for step in own]
    return rows + [row for one in facts.passes for row in _of_pass(one, facts.not_run)]


def _of_pass(one: DrillPass, not_run: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    definition = PROCEDURES.get(one.dag_id)
    began = {step["id"] for step in (one.evidence or {}).get("steps") or ()}
    for step in definition.steps if definition else ():
        if step not in began:
            why = not_run.get(f"{one.name}.{step}") or not_run.get(one.name) or _why(one)
            yield {"pass": one.name, "step": step.value, "why": why}


def _why(one: DrillPass) -> str:
    evidence = one.evidence
    if evidence is None:
        return "the pass has no evidence: it did not end, or never began"
    at = f" at {evidence['failing_step']}" if evidence.get("failing_step") else ""
    return (
        "the params of this run leave it out"
        if evidence.get("outcome") == "completed"
        else (f"the run ended before as {evidence.get('outcome')}{at}")
    )
