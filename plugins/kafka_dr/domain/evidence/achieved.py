"""What a run achieved beside its flow's objectives, from the evidence's own fields.

Downtime is measured to the end of redirect_clients: in a planned failover and a failback from the beginning of
fence_producers; in an unplanned failover from the last sign of life of the source before the run was triggered
(recorder's sample or mirrored heartbeat), from the fence of the run that it continues, or from the trigger, whichever
is earliest. Without any sign of life the time from the trigger is a lower bound only.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from kafka_dr.domain.evidence.fields import Evidence, step_done
from kafka_dr.domain.evidence.timeline import client_downtime
from kafka_dr.domain.objectives.losses import (
    gone_since,
    last_sign_of_life,
    lost_records,
    lost_seconds,
    records_text,
    seconds_text,
    unix_milliseconds,
)
from kafka_dr.domain.objectives.verdict import POSSIBLE_BREACH, Measured, Verdict, judge_objective, stated_objectives
from kafka_dr.domain.plain_text import format_duration, parse_moment
from kafka_dr.procedures import PROCEDURES, UNPLANNED_FAILOVER
from kafka_dr.vocabulary import Outcome, Step

FENCE, EARLIER_FENCE, LAST_SIGN, TRIGGER = "fence", "earlier_fence", "last_sign_of_life", "trigger"
_UNKNOWN = Measured(None, None)


class Downtime(NamedTuple):
    """How long clients could use neither cluster, in seconds, and from when on that is measured."""

    seconds: Measured
    since: str


def downtime_of(e: Evidence) -> Downtime | None:
    """Return the clients' downtime; None if no client was stopped, or if clients still stand still.

    Of an unplanned failover only if clients were redirected.
    """
    if e["dag_id"] == UNPLANNED_FAILOVER.dag_id:
        return _downtime_without_source(e)
    span = client_downtime(e)
    if span is None or span.ended is None:
        return None
    seconds = round(span.seconds, 3)
    return Downtime(Measured(seconds, seconds), FENCE)


def _downtime_without_source(e: Evidence) -> Downtime | None:
    redirected = next((s["ended_at"] for s in e["steps"] if s["id"] == Step.REDIRECT_CLIENTS), None)
    closed = parse_moment(e["closed_at"])
    if redirected is None or closed is None or Step.REDIRECT_CLIENTS not in step_done(e):
        return None
    plan, triggered = e["plan"] or {}, closed - timedelta(seconds=e["seconds"]["whole"])
    sign, fenced_at = last_sign_of_life(plan), (plan.get("continues") or {}).get("fenced_at")
    starts = [(unix_milliseconds(triggered.isoformat()), TRIGGER)]
    starts += [(sign, LAST_SIGN)] if sign is not None else []
    starts += [(unix_milliseconds(fenced_at), EARLIER_FENCE)] if fenced_at else []
    began, since = min(starts)
    seconds = max(0.0, (unix_milliseconds(redirected) - began) / 1000)
    return Downtime(Measured(seconds, seconds if len(starts) > 1 else None), since)


def achieved_of(e: Evidence) -> dict[str, Any] | None:
    """Return what a run achieved; None for a procedure that moves no client.

    Returns:
        `downtime_seconds` (a lower bound if `downtime_since` is `trigger` and no sign of life of the source is known)
        and `downtime_since` (fence, earlier_fence, last_sign_of_life, trigger); `lost_records` and `lost_seconds`, each
        {`certain`, `possible`} (possible None: no bound is known); `verdicts` {name of the objective: {`verdict`: met,
        breached or unknown, `reason`}}, of the stated objectives. All figures are None if the run did not complete.
    """
    definition = PROCEDURES.get(e["dag_id"])
    if definition is None or not definition.moves_clients or Step.ABORT_PROCEDURE in definition.steps:
        return None
    downtime, completed = downtime_of(e), e["outcome"] == Outcome.COMPLETED
    measured = _measured(e, downtime) if completed else dict.fromkeys(_FIGURES, _UNKNOWN)
    texts = _texts(e, downtime, measured) if completed else dict.fromkeys(_FIGURES, _not_completed(e, downtime))
    stated = stated_objectives(e["objectives"])
    return {
        "downtime_seconds": measured["rto_seconds"].least,
        "downtime_since": downtime.since if completed and downtime else None,
        "lost_records": _pair(measured["rpo_records"]),
        "lost_seconds": _pair(measured["rpo_seconds"]),
        "verdicts": {name: _verdict(value, measured[name], texts[name]) for name, value in stated.items()},
    }


_FIGURES = ("rto_seconds", "rpo_seconds", "rpo_records")


def _measured(e: Evidence, downtime: Downtime | None) -> dict[str, Measured]:
    records, seconds = _losses(e)
    return {
        "rto_seconds": downtime.seconds if downtime else _UNKNOWN,
        "rpo_seconds": seconds,
        "rpo_records": records,
    }


def _losses(e: Evidence) -> tuple[Measured, Measured]:
    """Return lost records and lost seconds; unknown if the run did not prove what is lost."""
    lost_source = e["dag_id"] == UNPLANNED_FAILOVER.dag_id
    proofs = {Step.ASSESS_DATA_LOSS} if lost_source else {Step.WAIT_FOR_ZERO_LAG, Step.TRANSLATE_OFFSETS}
    if not proofs <= step_done(e):
        return _UNKNOWN, _UNKNOWN
    rows, plan = e["loss"], e["plan"] or {}
    records = lost_records(rows)
    seconds = lost_seconds(rows, last_sign_of_life(plan), gone_since(plan, rows, e["fenced_at"]))
    # Incomplete evidence may lack a larger loss.
    return (records._replace(most=None), seconds._replace(most=None)) if e["problems"] else (records, seconds)


def _texts(e: Evidence, downtime: Downtime | None, measured: Mapping[str, Measured]) -> dict[str, str]:
    lost = f"{e['source']} was lost" if e["dag_id"] == UNPLANNED_FAILOVER.dag_id else f"clients left {e['source']}"
    return {
        "rto_seconds": _downtime_text(e, downtime),
        "rpo_seconds": seconds_text(measured["rpo_seconds"], lost),
        "rpo_records": records_text(measured["rpo_records"]),
    }


def _downtime_text(e: Evidence, downtime: Downtime | None) -> str:
    if downtime is None:
        return "the evidence has no beginning or no end of the clients' downtime"
    since = {
        FENCE: "the beginning of fence_producers",
        EARLIER_FENCE: "the fence of the continued run",
        LAST_SIGN: f"the last sign of life of {e['source']}",
        TRIGGER: "the trigger of the run",
    }[downtime.since]
    length = format_duration(downtime.seconds.least or 0.0)
    if downtime.seconds.most is None:
        length, since = f"at least {length}", f"{since} (no sign of life of {e['source']} is known)"
    return f"clients could use neither cluster for {length}, from {since} to the end of redirect_clients"


def _not_completed(e: Evidence, downtime: Downtime | None) -> str:
    stood = f"; clients stood still for {format_duration(downtime.seconds.least or 0.0)}" if downtime else ""
    return f"the run did not complete ({e['outcome']}){stood}"


def _verdict(objective: float, measured: Measured, text: str) -> dict[str, str]:
    verdict = judge_objective(objective, measured)
    partly = verdict is Verdict.UNKNOWN and measured.least is not None
    return {"verdict": verdict.value, "reason": f"{POSSIBLE_BREACH if partly else ''}{text}"}


def _pair(measured: Measured) -> dict[str, float | None]:
    return {"certain": measured.least, "possible": measured.most}
