"""Reads all metrics from topology, readiness documents and journal; sends no request to Kafka, and never writes.

Invariants
1. A journal or document that cannot be read gives values that say so, and never an error.
2. Neither plans nor lists of topics or groups are read: the time does not grow with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import TimeoutError as NotInTime
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from kafka_dr.actions.readiness.document import document_path, read_document
from kafka_dr.concurrently import run_in_background
from kafka_dr.config.topology import Flow, Topology
from kafka_dr.domain.evidence.live_status import ProcedureStatus, live_status
from kafka_dr.domain.metrics.flow_values import values_of_document, values_of_settings
from kafka_dr.domain.metrics.procedure_values import values_of_anchors, values_of_ends, values_of_holders
from kafka_dr.domain.metrics.series import SERIES, MetricValue
from kafka_dr.domain.notices.service_notices import RECORDER, WATCHER
from kafka_dr.errors import SwitchbackError
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.hooks.journal.notices import NoticeState
from kafka_dr.hooks.redaction import one_line
from kafka_dr.procedure.stored_files import StoredFiles
from kafka_dr.recorder.journal_notes import name_in_journal

#: A journal that has not answered after this time, in seconds, counts as away; Prometheus itself waits 10 s.
_JOURNAL_SECONDS = 5.0
#: How many ends of procedures are searched for the last one of each DAG and flow.
_MOST_ENDS = 200
_NOT_SENT_WITHIN = timedelta(days=1)
_UNDELIVERED = (NoticeState.WAITING, NoticeState.NOT_SENT, NoticeState.UNKNOWN)


@dataclass(frozen=True)
class MetricsReading:
    """Values, when they were true, and why others are missing, as sentences."""

    values: list[MetricValue]
    problems: list[str]
    now: datetime


def read_metrics(
    topology: Topology, open_journal: Callable[[], Journal], live: bool = True, files: StoredFiles | None = None
) -> MetricsReading:
    """Return all values that can be read now.

    Args:
        open_journal: opens the journal.
        live: whether values are wanted that are true for seconds only.
        files: fetches readiness documents that another machine has written; None: this machine's copies count.
    """
    try:
        asked = run_in_background(lambda: _read_journal(topology, open_journal()))
        reading, answers = asked.result(_JOURNAL_SECONDS), True
    except Exception as error:  # noqa: BLE001 (whatever is wrong with the journal, the other values are wanted)
        reading, answers = MetricsReading([], [f"the journal: {_text_of(error)}"], datetime.now(UTC)), False
    for flow in topology.flows:
        reading.values.extend(_flow_values(topology, flow, reading.now, reading.problems, files))
    if topology.recorder is not None:
        reading.values.append(MetricValue("recorder_interval_seconds", topology.recorder.interval_seconds))
    reading.values.append(MetricValue("up", int(not reading.problems)))
    reading.values.append(MetricValue("journal_up", int(answers)))
    reading.values.append(MetricValue("generated_timestamp_seconds", reading.now.timestamp()))
    kept = [one for one in reading.values if live or not SERIES[one.name].live]
    return replace(reading, values=kept)


def _text_of(error: Exception) -> str:
    if isinstance(error, NotInTime):
        return f"no answer within {_JOURNAL_SECONDS:g} s"
    return str(error) if isinstance(error, SwitchbackError) else f"{type(error).__name__}: {one_line(error)}"


def _read_journal(topology: Topology, journal: Journal) -> MetricsReading:
    """Read each part of the journal by itself: a part that cannot be read leaves the others."""
    now = journal.now()
    reading = MetricsReading([], [], now)
    parts: dict[str, Callable[[], Iterable[MetricValue]]] = {
        "signs of life": lambda: _signs(topology, journal),
        "notices": lambda: _notices(journal, now),
        "ends of procedures": lambda: values_of_ends(journal.ends(_MOST_ENDS)),
        "running procedures": lambda: _holders(topology, journal, now),
    }
    for name, read in parts.items():
        try:
            reading.values.extend(read())
        except SwitchbackError as error:
            reading.problems.append(f"{name}: {error}")
    return reading


def _signs(topology: Topology, journal: Journal) -> Iterator[MetricValue]:
    signs: list[tuple[str, str, tuple[str, ...]]] = [
        ("watcher_last_sign_timestamp_seconds", WATCHER, ()),
        ("recorder_last_sign_timestamp_seconds", RECORDER, ()),
    ]
    if topology.recorder is not None and topology.recorder.public_keys:
        for flow in topology.flows:
            name = name_in_journal(f"{flow.source}->{flow.target}")
            signs.append(("recorder_last_sample_timestamp_seconds", name, (flow.source, flow.target)))
    for series, name, labels in signs:
        if (at := journal.last_sign(name)) is not None:
            yield MetricValue(series, at.timestamp(), labels)


def _notices(journal: Journal, now: datetime) -> Iterator[MetricValue]:
    for state in _UNDELIVERED:
        recent = [record for record in journal.notices(state=state) if record.at >= now - _NOT_SENT_WITHIN]
        yield MetricValue("notices_undelivered", len(recent), (state.value,))


def _holders(topology: Topology, journal: Journal, now: datetime) -> Iterable[MetricValue]:
    values, holders = list[MetricValue](), list[ProcedureStatus]()
    for pair in sorted({topology.pair_key(flow.source, flow.target) for flow in topology.flows}):
        lease = journal.lease(pair)
        if lease is None:
            continue
        entries = journal.brief_entries(lease.holder)
        values += values_of_anchors(entries)
        status = live_status(lease.holder, entries, now) if lease.released_at is None else None
        if status is not None:
            holders.append(status)
    return [*values, *values_of_holders([(flow.source, flow.target) for flow in topology.flows], holders, now)]


def _flow_values(
    topology: Topology, flow: Flow, now: datetime, problems: list[str], files: StoredFiles | None
) -> Iterator[MetricValue]:
    """Yield the values of a flow's document and settings; add a problem if the document cannot be read."""
    name, path = (flow.source, flow.target), document_path(topology.evidence, flow.source, flow.target)
    signs = topology.recorder is not None and bool(topology.recorder.public_keys)
    if files is not None and (old := files.refresh(path)):
        problems.append(old)
    values = values_of_document(name, read_document(path), now, signs)
    if MetricValue("document_up", 0, name) in values:
        problems.append(f"the readiness document {path} is missing, cannot be read, or has another form")
    yield from values
    yield from values_of_settings(
        name,
        {
            "lag_limit_records": flow.readiness.lag_records,
            "lag_limit_bytes": flow.readiness.lag_bytes,
            "lag_limit_seconds": flow.readiness.record_age_seconds,
            "rto_objective_seconds": flow.objectives.rto_seconds,
        },
    )
