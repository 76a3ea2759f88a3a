"""What the newest drill of a flow says about the flow's readiness today."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from kafka_dr.domain.plain_text import count_of, format_moment
from kafka_dr.domain.readiness.fingerprint import Fingerprint, changes_since
from kafka_dr.domain.readiness.state import Gravity, ReadinessFinding
from kafka_dr.procedure.entries import DrillJudged


def due_at(drill: DrillJudged, days: float, retest_days: float) -> datetime:
    """Return when the next drill is due: `days` after the last one ended; `retest_days` after one that failed."""
    after = min(days, retest_days) if drill.verdict == "failed" else days
    return datetime.fromisoformat(drill.ended_at) + timedelta(days=after)


def drill_findings(
    drill: DrillJudged | None, today: Fingerprint | None, days: float, now: datetime
) -> Iterator[ReadinessFinding]:
    """Yield findings unless the newest drill passed, is not due again, and was made under what is in place today.

    Args:
        drill: the flow's newest drill that has ended; None without a drill.
        today: fingerprint of what is in place now; None if it could not be read.
        days: the drill's period.
    """
    if drill is None:
        yield ReadinessFinding("drill_missing", Gravity.UNVERIFIED, "", "no drill of this flow has ended yet")
        return
    named = f"the {drill.drill_kind} drill {drill.procedure_id}, which ended at {format_moment(drill.ended_at)},"
    if drill.verdict == "failed":
        yield ReadinessFinding("drill_failed", Gravity.FAILED, "", f"{named} failed")
    elif drill.verdict != "passed" or drill.findings_open:
        still_open = count_of(len(drill.findings_open), "open finding")
        yield ReadinessFinding(
            "drill_open", Gravity.UNVERIFIED, "", f"{named} has the verdict {drill.verdict}, {still_open}"
        )
    if now > datetime.fromisoformat(drill.ended_at) + timedelta(days=days):
        yield ReadinessFinding("drill_due", Gravity.UNVERIFIED, "", f"{named} is older than {days:g} days")
    if today is None:
        yield ReadinessFinding("fingerprint_unknown", Gravity.UNKNOWN, "", "what is in place today could not be read")
    else:
        yield from changes_since(Fingerprint.from_dict(drill.fingerprint), today)
