"""A notice to people about one event: its severity, and its text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum, StrEnum
from urllib.parse import quote


class Severity(IntEnum):
    """How urgent an event is: INFO to read some time, WARNING to read now, CRITICAL to act now."""

    INFO = 0
    WARNING = 1
    CRITICAL = 2


class Event(StrEnum):
    """What people are notified of; each but the test has a heading on the page `runbooks/notifications.md`."""

    GATE_OPENED = "gate_opened"
    GATE_HALF_TIME = "gate_half_time"
    FENCE_ON = "fence_on"
    FENCE_HALF_TIME = "fence_half_time"
    COMPLETED = "completed"
    RETURNED = "returned"
    REFUSED = "refused"
    ABORTED = "aborted"
    FAILED = "failed"
    SOURCE_CAME_BACK = "source_came_back"
    CONTESTED = "contested"
    RECORDER_SILENT = "recorder_silent"
    WATCHER_SILENT = "watcher_silent"
    READINESS_FELL = "readiness_fell"
    DRILL_DUE = "drill_due"
    DRILL_FAILED = "drill_failed"
    CLUSTERS_DIFFER = "clusters_differ"
    TEST = "test"


#: The only table of severities; `runbooks/notifications.md` shows it to people.
SEVERITIES: Mapping[Event, Severity] = {
    Event.GATE_OPENED: Severity.WARNING,
    Event.GATE_HALF_TIME: Severity.CRITICAL,
    Event.FENCE_ON: Severity.WARNING,
    Event.FENCE_HALF_TIME: Severity.CRITICAL,
    Event.COMPLETED: Severity.INFO,
    Event.RETURNED: Severity.WARNING,
    Event.REFUSED: Severity.WARNING,
    Event.ABORTED: Severity.WARNING,
    Event.FAILED: Severity.CRITICAL,
    Event.SOURCE_CAME_BACK: Severity.CRITICAL,
    Event.CONTESTED: Severity.CRITICAL,
    Event.RECORDER_SILENT: Severity.WARNING,
    Event.WATCHER_SILENT: Severity.CRITICAL,
    Event.READINESS_FELL: Severity.WARNING,
    Event.DRILL_DUE: Severity.INFO,
    Event.DRILL_FAILED: Severity.WARNING,
    Event.CLUSTERS_DIFFER: Severity.WARNING,
    Event.TEST: Severity.CRITICAL,
}


#: Switchback's first page in Airflow, which shows every flow; Airflow asks who is not logged in to log in there.
_FIRST_PAGE = "/plugin/switchback"


@dataclass(frozen=True)
class Notice:
    """One event that people are notified of.

    Attributes:
        id: the same whenever the same event is found again.
        flow: `source->target`; "" for an event of all flows.
        at: when the event took place, in UTC.
        subject: what the event is about, in a few words, such as a gate.
        lines: what happened, what to do, and the figures to decide by, as sentences.
        until: the deadline that the event has set; None without one.
        dag_id, run_id: Airflow's ids of the run; None without a run.
        gate: the gate's task id, for an event of a gate; else None.
    """

    id: str
    event: Event
    flow: str
    at: datetime
    subject: str
    lines: tuple[str, ...] = ()
    until: datetime | None = None
    dag_id: str | None = None
    run_id: str | None = None
    gate: str | None = None

    @property
    def severity(self) -> Severity:
        """The event's severity."""
        return SEVERITIES[self.event]

    def title(self) -> str:
        """Return the subject line: severity, flow, event, and what the event is about."""
        event = self.event.value.replace("_", " ")
        return f"[{self.severity.name.lower()}] {self.flow or 'all flows'}: {event}: {self.subject}"

    def body(self, now: datetime, airflow_url: str) -> tuple[str, ...]:
        """Return the lines below the subject line; the last one is the link.

        Args:
            now: the time of sending, in UTC, from which the seconds left are counted.
            airflow_url: Airflow's address as people reach it; "" if it is not known.
        """
        since = f"At {self.at:%Y-%m-%d %H:%M:%S} UTC."
        left = ""
        if self.until is not None:
            seconds = max(0, int((self.until - now).total_seconds()))
            left = f"Time left: {seconds} s, until {self.until:%Y-%m-%d %H:%M:%S} UTC."
        page = "" if self.event is Event.TEST else f"What to do: runbooks/notifications.md#{self.event}"
        return tuple(filter(None, (since, *self.lines, left, page, self._link(airflow_url))))

    def _link(self, airflow_url: str) -> str:
        if self.dag_id is None or self.run_id is None:
            return f"Page: {airflow_url}{_FIRST_PAGE}" if airflow_url else ""
        if not airflow_url:
            return f"Run {self.run_id} of the DAG {self.dag_id} (no link: [api] base_url of Airflow is not set)."
        run = f"{airflow_url}/dags/{quote(self.dag_id, safe='')}/runs/{quote(self.run_id, safe='')}"
        return f"Answer here: {run}/tasks/{self.gate}/required_actions" if self.gate else f"Run: {run}"
