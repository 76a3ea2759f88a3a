"""The notices that are due about recorder and watcher, and about the readiness of a flow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from kafka_dr.domain.notices.notice import Event, Notice
from kafka_dr.domain.plain_text import first_few, parse_moment
from kafka_dr.domain.silence import SILENT_SECONDS
from kafka_dr.vocabulary import Step

RECORDER, WATCHER = "record_positions", Step.WATCH_OLD_SOURCE.value
_ADVICE = {
    Event.RECORDER_SILENT: (
        "If the source is lost now, the loss is known up to the recorder's last sample only. Unpause the DAG"
        " record_positions, and read the log of its task."
    ),
    Event.WATCHER_SILENT: (
        "No process fences an old source that answers again, or guards the last move of clients. Unpause the DAG"
        " watch_old_source, and read the log of its task."
    ),
}
#: States of a flow's readiness, best first.
_STATES = ("VERIFIED", "NEEDS_VERIFICATION", "UNKNOWN", "NOT_VERIFIED")


@dataclass(frozen=True)
class MonitoredService:
    """A process that shows its life in the journal.

    Attributes:
        event: what its silence is.
        flow: `source->target`; "" for a service of all flows.
        last: its last sign of life, in UTC; None if it never showed one.
        silent_after: without a sign for this long it is silent, in seconds.
    """

    name: str
    event: Event
    last: datetime | None
    flow: str = ""
    silent_after: float = SILENT_SECONDS


def find_silences(services: Iterable[MonitoredService], waiting_since: datetime, now: datetime) -> list[Notice]:
    """Return a notice for each service that is silent; the id changes only with the service's last sign of life.

    Args:
        waiting_since: since when somebody looks for signs: no service is silent before it could show one.
    """
    found = []
    for service in services:
        since = max(service.last or waiting_since, waiting_since)
        if (now - since).total_seconds() < service.silent_after:
            continue
        last = service.last
        seen = f"since {last:%Y-%m-%d %H:%M:%S} UTC" if last else "ever"
        text = (f"{service.name} has shown no sign of life {seen}.", _ADVICE[service.event])
        identity = f"{service.name}/{last.isoformat() if last else 'never'}/{service.event}"
        subject = f"{service.name} shows no sign of life"
        found.append(Notice(identity, service.event, service.flow, since, subject, text))
    return found


def state_of(document: Mapping[str, Any], now: datetime) -> str:
    """Return the readiness that a document of readiness_check shows at `now`; UNKNOWN if its check is too old."""
    stale_after = parse_moment(document.get("stale_after"))
    return "UNKNOWN" if stale_after is None or now > stale_after else str(document.get("state"))


class SeenReadiness(NamedTuple):
    """The state of a flow that was seen last, as all who send notices share it in the journal's database.

    Attributes:
        fell_from: the better state before; "" if the state did not fall to this one.
        fell_at: when the fall was seen, ISO 8601 UTC.
        checked_at: which check has shown the fall, ISO 8601 UTC.
    """

    state: str
    fell_from: str = ""
    fell_at: str = ""
    checked_at: str = ""

    @classmethod
    def from_text(cls, text: str | None) -> SeenReadiness | None:
        """Return what `as_text` has written; None for an empty text."""
        return cls(*text.split(" ")[:4]) if text else None

    def as_text(self) -> str:
        """Return one line."""
        return " ".join(filter(None, self))


def see_readiness(before: SeenReadiness | None, document: Mapping[str, Any], now: datetime) -> SeenReadiness:
    """Return what a document of readiness_check shows after what was seen before; the same while the state is."""
    state, checked = state_of(document, now), parse_moment(document.get("checked_at"))
    if before is not None and before.state == state:
        return before
    if before is None or checked is None or _rank(state) <= _rank(before.state):
        return SeenReadiness(state)
    return SeenReadiness(state, before.state, now.isoformat(), checked.isoformat())


def readiness_notices(flow: str, seen: SeenReadiness, document: Mapping[str, Any], now: datetime) -> list[Notice]:
    """Return the notices about a flow's readiness: that its state fell, and that its drill is due.

    A fall stays due while the state is the same, so that a server that was away is tried again.

    Args:
        flow: `source->target`.
        seen: as of `see_readiness`, for this document.
        document: what readiness_check wrote: `state`, `reasons`, `checked_at`, `stale_after`, `next_drill_due`.
    """
    checked, fell_at = parse_moment(document.get("checked_at")), parse_moment(seen.fell_at)
    if checked is None:
        return []
    found = []
    if fell_at is not None:
        text = (
            f"A failover of {flow} was {seen.fell_from}, and is {seen.state}.",
            f"Last check: {checked:%Y-%m-%d %H:%M:%S} UTC.",
            *map(_reason, _list(document.get("reasons"))[:5]),
            "Correct what the reasons name; runbooks/readiness_check.md explains each.",
        )
        identity = f"{flow}/{seen.checked_at}/{seen.state}/{Event.READINESS_FELL}"
        subject = f"{seen.fell_from} to {seen.state}"
        found.append(Notice(identity, Event.READINESS_FELL, flow, fell_at, subject, text))
    next_due = parse_moment(document.get("next_drill_due"))
    if next_due is not None and next_due <= now:
        text = (f"The drill of {flow} was due at {next_due:%Y-%m-%d %H:%M:%S} UTC. Make a drill of this flow.",)
        identity = f"{flow}/{next_due.isoformat()}/{Event.DRILL_DUE}"
        found.append(Notice(identity, Event.DRILL_DUE, flow, now, "a drill is due", text))
    return found


def _rank(state: str) -> int:
    return _STATES.index(state) if state in _STATES else _STATES.index("UNKNOWN")


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def _reason(reason: Any) -> str:
    """Return one of the document's reasons as text, whether it is a text or has parts."""
    return first_few([str(part) for part in reason.values()], 3, "; ") if isinstance(reason, Mapping) else str(reason)
