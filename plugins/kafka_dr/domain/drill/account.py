"""The account of a drill: its passes step by step, retries, faults on purpose, time on the other cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import Any

from kafka_dr.domain.drill.facts import DrillFacts, DrillPass, NotDone, Planted
from kafka_dr.domain.plain_text import count_of, parse_moment
from kafka_dr.vocabulary import Step

_WHAT = "the source was taken away"
_EXPECTED = "confirm_source_lost finds the source lost, and every record without a copy is listed"
_OF_EVIDENCE = (
    "outcome", "failing_step", "reason_for_outcome", "plan_digest", "digest", "approved_through", "seconds", "classes",
    "rereads", "repeats", "loss", "fenced_at", "closed_at", "objectives",
)  # fmt: skip


def own_account(steps: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return steps with id, state, times and seconds."""
    return [
        {
            **{name: step.get(name) for name in ("id", "state", "started_at", "ended_at")},
            "seconds": _between(step.get("started_at"), step.get("ended_at")),
        }
        for step in steps
    ]


def _between(began: Any, ended: Any) -> float | None:
    start, end = parse_moment(began), parse_moment(ended)
    return round((end - start).total_seconds(), 3) if start and end else None


def list_passes(passes: Sequence[DrillPass]) -> list[dict[str, Any]]:
    """Return each pass with its outcome, figures, steps, the drill's own count, and where its evidence lies."""
    return [_pass(one) for one in passes]


def _pass(one: DrillPass) -> dict[str, Any]:
    evidence = one.evidence or {}
    return {
        "name": one.name,
        "dag_id": one.dag_id,
        "source": one.source,
        "target": one.target,
        "expected": one.expected,
        "simulated_loss": one.simulated_loss,
        "evidence": one.path,
        "procedure_id": evidence.get("procedure_id"),
        **{name: evidence.get(name) for name in _OF_EVIDENCE},
        "forecast": _forecast(evidence.get("plan") or {}),
        "steps": own_account(evidence.get("steps") or ()),
        "integrity": None if one.integrity is None else asdict(one.integrity),
    }


def _forecast(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the pass's plan expected: its drain time, its longest fence, and what it could not prove."""
    return {
        "drain_seconds": plan.get("drain_seconds"),
        "max_fence_seconds": (plan.get("deadlines") or {}).get("max_fence_seconds"),
        "unproven": list(plan.get("unproven") or ()),
    }


def list_retries(facts: DrillFacts) -> list[dict[str, Any]]:
    """Return the failed tries of steps, of the drill and of its passes: pass, step, at, reason."""
    tried: list[tuple[str | None, Mapping[str, Any]]] = [(None, step) for step in facts.steps]
    tried += [(one.name, step) for one in facts.passes for step in (one.evidence or {}).get("steps") or ()]
    return [
        {"pass": name, "step": step["id"], "at": failure.get("at"), "reason": failure.get("reason")}
        for name, step in tried
        for failure in step.get("failures") or ()
    ]


def why_not_completed(evidence: Mapping[str, Any]) -> list[NotDone]:
    """Return why the failing step of a pass did not do its work: every readiness check that failed, or one failure.

    [] if the evidence names no failing step, or no failure of it.
    """
    name = evidence.get("failing_step")
    step = next((one for one in evidence.get("steps") or () if one["id"] == name), None)
    failures = (step or {}).get("failures") or ()
    if step is None or not failures:
        return []
    failure = {part: str(failures[-1].get(part) or "") for part in ("reason", "seen", "next_step")}
    checks = next((note["blockers"] for note in reversed(step.get("notes") or ()) if "blockers" in note), ())
    failed = [
        NotDone(str(name), check["reason"], check["seen"], check["next_step"], check["gate"])
        for check in checks
        # The blockers of an earlier try are noted, too.
        if check["reason"] in failure["seen"]
    ]
    return list(dict.fromkeys(failed)) or [NotDone(str(name), **failure)]


def time_on_other_cluster(facts: DrillFacts) -> list[dict[str, Any]]:
    """Return when another cluster than the first carried the load: from one redirection of clients to the next."""
    moves = [(one, at) for one in facts.passes if (at := _redirected_at(one))]
    return [
        {"cluster": first.target, "began_at": began, "ended_at": ended, "seconds": _between(began, ended)}
        for (first, began), (second, ended) in pairwise(moves)
        if second.source == first.target != facts.source
    ]


def _redirected_at(one: DrillPass) -> str | None:
    steps = {step["id"]: step for step in (one.evidence or {}).get("steps") or ()}
    redirect = steps.get(Step.REDIRECT_CLIENTS, {})
    at: str | None = redirect.get("ended_at") if redirect.get("state") == "done" else None
    return at


def was_restored(facts: DrillFacts) -> bool | None:
    """Return whether the last pass brought the clients back to where they were; None without any pass that ended."""
    ended = [one for one in facts.passes if one.evidence is not None]
    if not ended:
        return None
    last = ended[-1]
    return last.target == facts.source and (last.evidence or {}).get("outcome") == "completed"


# -- faults on purpose ---------------------------------------------------------------------------------------------


def planted_faults(passes: Iterable[DrillPass]) -> Iterator[Planted]:
    """Yield the fault of each pass whose source was taken away; unknown if the pass or its count did not end."""
    for one in passes:
        if one.simulated_loss:
            yield _lost_source(one)


def _lost_source(one: DrillPass) -> Planted:
    steps = {step["id"]: step.get("state") for step in (one.evidence or {}).get("steps") or ()}
    counted, what = one.integrity, f"{_WHAT} from {one.name}"
    if steps.get(Step.CONFIRM_SOURCE_LOST) != "done":
        return Planted(what, _EXPECTED, "the source was not found lost", None if one.evidence is None else False)
    if counted is None or counted.lost_listed is None or counted.lost_unlisted is None:
        return Planted(what, _EXPECTED, "the source was found lost; the lost records were not counted")
    seen = (
        f"the source was found lost; {count_of(counted.lost_listed, 'record')} without a copy on the list,"
        f" {counted.lost_unlisted:,} on no list"
    )
    return Planted(what, _EXPECTED, seen, counted.lost_unlisted == 0)
