"""When a drill of a flow is due to start: by calendar, after a failed one, or after a change."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from kafka_dr.domain.plain_text import parse_moment
from kafka_dr.procedure.entries import DrillJudged

#: A change counts once it has lasted so long: a roll-out changes many things one after the other.
_SETTLED = timedelta(hours=1)
#: A failed drill is repeated a day before its repetition would be overdue, and no drill is started twice in a day.
_DAY = timedelta(days=1)


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
