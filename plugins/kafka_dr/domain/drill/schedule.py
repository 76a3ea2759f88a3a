"""When a drill is due to start, how long it waits for people, and after which silence it counts as given up.

A drill is due by calendar, after a failed one, or after a change.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from kafka_dr.domain.drill.verdict import FULL
from kafka_dr.domain.plain_text import parse_moment
from kafka_dr.procedure.entries import DrillJudged

#: A change counts once it has lasted so long: a roll-out changes many things one after the other.
_SETTLED = timedelta(hours=1)
#: A failed drill is repeated a day before its repetition would be overdue, and no drill is started twice in a day.
_DAY = timedelta(days=1)
#: How long sign_off_drill stays open: owners of findings are rarely all there on the day of a drill.
SIGN_OFF_WAIT = timedelta(days=7)
#: How long a full drill waits for each move that people make, once its notice time is over.
MOVE_WAIT = timedelta(days=7)


def why_due(
    newest: DrillJudged | None,
    last_start: datetime | None,
    document: Mapping[str, Any] | None,
    days: tuple[float, float],
    now: datetime,
) -> str:
    """Return why a drill of a flow is due to start now; empty if none is.

    Args:
        newest: the flow's newest drill that has ended.
        last_start: when a drill of the flow was last started.
        document: the flow's readiness document; without one nothing is known of changes.
        days: the flow's `drill_days` and `retest_days`.
        now: the journal's time.
    """
    if last_start is not None and now - last_start < _DAY:
        return ""
    if newest is None:
        return "no drill of this flow has ended yet"
    ended, (period, retest) = datetime.fromisoformat(newest.ended_at), days
    if newest.verdict == "failed" and now >= ended + timedelta(days=retest) - _DAY:
        return f"the last drill failed, and is to be repeated within {retest:g} days"
    if now >= ended + timedelta(days=period):
        return f"the last drill ended {(now - ended).days} days ago; one is due every {period:g} days"
    changes = [
        finding
        for finding in (document or {}).get("findings", ())
        if finding.get("id") == "changed_since_drill" and _has_settled(finding.get("since"), now)
    ]
    return f"changed since the last drill: {changes[0].get('text')}" if changes else ""


def _has_settled(since: object, now: datetime) -> bool:
    at = parse_moment(since) if isinstance(since, str) else None
    return at is not None and now - at >= _SETTLED


def longest_silence(kind: str, notice_hours: float, approval_wait_seconds: float) -> timedelta:
    """Return how old the newest journal entry of a drill may be; a drill that is silent for longer is given up.

    While a drill waits for people it writes nothing: 8 days for observe and canary; for full its notice time and 15
    days, or a day more than announce_drill waits, if that is longer.

    Args:
        kind: observe, canary or full.
        notice_hours: of the flow's objectives.
        approval_wait_seconds: how long announce_drill waits.
    """
    if kind != FULL:
        return SIGN_OFF_WAIT + _DAY
    moves = timedelta(hours=notice_hours) + MOVE_WAIT + SIGN_OFF_WAIT
    return max(moves, timedelta(seconds=approval_wait_seconds)) + _DAY
