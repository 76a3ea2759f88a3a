"""How much is lost, in records and in seconds, by the rows of loss and by when the source was last seen to work.

A row of loss is a range of one source partition that the target lacks: topic, partition, from_offset, certain_to,
possible_to (both exclusive; None: nothing is certain, no bound). Optional: records (counted on the source),
`written_since` and `written_before` (between these times the oldest lost record was written; milliseconds since 1970),
`approved` (the offsets before the row was corrected), `accepted_to` (the source accepted records meanwhile).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from kafka_dr.domain.objectives.verdict import Measured
from kafka_dr.domain.plain_text import count_of, format_duration

Row = Mapping[str, Any]


def lost_records(rows: Sequence[Row]) -> Measured:
    """Return how many records are certainly lost, and how many at most; None if that has no bound.

    Where records could not be counted on the source, offsets count as records.
    """
    most = [_possible(row) for row in rows]
    return Measured(sum(map(_certain, rows)), None if None in most else sum(filter(None, most)))


def lost_seconds(rows: Sequence[Row], alive: int | None, gone: int | None) -> Measured:
    """Return how old the oldest lost record was when the source was lost, in seconds: at least, and at most.

    (0, 0) without loss. At least 0 where no time is known; at most None where a time is missing.

    Args:
        alive: when the source was last seen to work, in milliseconds since 1970; None if unknown.
        gone: from when on the source can have accepted no record that is lost; None if unknown.
    """
    losing = [row for row in rows if _possible(row) != 0]
    if not losing:
        return Measured(0.0, 0.0)
    known = [at for row in losing if _certain(row) and (at := _written(row, "written_before")) is not None]
    least = max([0.0, *((alive - at) / 1000 for at in known if alive is not None)])
    since = [_written(row, "written_since") for row in losing]
    if gone is None or None in since:
        return Measured(least, None)
    return Measured(least, max([least, *((gone - at) / 1000 for at in since if at is not None)]))


def _certain(row: Row) -> int:
    """Return how many records of a row are certainly lost."""
    certain: int = (row["certain_to"] or 0) - row["from_offset"]
    counted: int | None = row.get("records")
    return max(0, certain) if certain <= 0 or counted is None else counted


def _possible(row: Row) -> int | None:
    """Return how many records of a row may be lost; None if that has no bound."""
    if row["possible_to"] is None:
        return None
    counted: int | None = row.get("records")
    return max(_certain(row), row["possible_to"] - row["from_offset"] if counted is None else counted)


def _written(row: Row, name: str) -> int | None:
    """Return a time of a row's oldest record; None if the row was corrected to begin at an older record."""
    approved = row.get("approved")
    older = approved is not None and row["from_offset"] < approved["from_offset"]
    at: int | None = None if older else row.get(name)
    return at


def last_sign_of_life(plan: Mapping[str, Any]) -> int | None:
    """Return when the source was last seen to work, in milliseconds since 1970; None if never, or without a source.

    Args:
        plan: of an unplanned failover; its `seen` has the fields of `SourceLastSeen`.
    """
    seen = plan.get("seen") or {}
    return max((at for name in ("recorded_at", "heartbeat_at", "read_at") if (at := seen.get(name))), default=None)


def gone_since(plan: Mapping[str, Any], rows: Sequence[Row], fenced_at: str | None) -> int | None:
    """Return from when on the source can have accepted no record that is lost, in milliseconds since 1970.

    This is when the checks began that confirmed that the source is lost. A source that was left in spite of the checks,
    that could be read, or that accepted records meanwhile may accept writes until it is fenced.

    Args:
        fenced_at: when the source's fence was proven, ISO 8601; None without a proof.
    """
    seen = plan.get("seen") or {}
    working = (plan.get("confirmed") or {}).get("override") is not None or seen.get("read_at") is not None
    if working or any(row.get("accepted_to") is not None for row in rows):
        return None if fenced_at is None else unix_milliseconds(fenced_at)
    at: int | None = seen.get("looked_for_at")
    return at


def unix_milliseconds(moment: str) -> int:
    """Return an ISO 8601 time in milliseconds since 1970."""
    return round(datetime.fromisoformat(moment).timestamp() * 1000)


def records_text(measured: Measured) -> str:
    """Return lost records as text."""
    if measured == (0, 0):
        return "no record is lost"
    if measured.least is None:
        return "how many records are lost is unknown"
    certain = f"{count_of(int(measured.least), 'record')} certainly lost"
    return certain if measured.most == measured.least else f"{certain}, {_at_most(measured, 'records possibly')}"


def seconds_text(measured: Measured, lost: str) -> str:
    """Return how long before the loss of the source the oldest lost record was written, as text.

    Args:
        lost: the moment to which that time is measured, in words, such as `primary was lost`.
    """
    if measured == (0, 0):
        return "no record is lost"
    limits = [("at least", measured.least or None), ("at most", measured.most)]
    known = " and ".join(f"{word} {format_duration(seconds)}" for word, seconds in limits if seconds is not None)
    if not known:
        return f"how long before {lost} the oldest lost record was written is unknown"
    bound = "; no upper bound is known" if measured.most is None else ""
    return f"the oldest lost record was written {known} before {lost}{bound}"


def _at_most(measured: Measured, what: str) -> str:
    return f"no bound on {what}" if measured.most is None else f"at most {int(measured.most):,} {what}"
