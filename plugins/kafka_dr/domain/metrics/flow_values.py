"""Values of a flow, from its readiness document and its settings.

Invariants
1. A document whose fields do not have their form gives fewer values, and never an error.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from kafka_dr.domain.metrics.series import MetricValue
from kafka_dr.domain.notices.service_notices import state_of
from kafka_dr.domain.plain_text import parse_moment
from kafka_dr.domain.readiness.state import Gravity, State

VERDICTS = ("passed", "conditional", "failed")
#: Figures that hold for the time of the check, and one that stays true; name of the series -> its place.
_PRESENT = {
    "forecast_certain_records": ("if_now", "certain"),
    "forecast_possible_records": ("if_now", "possible"),
    "forecast_reread_records": ("if_now", "rereads"),
    "forecast_downtime_seconds": ("if_now", "seconds"),
    "lag_records": ("lag", "records"),
    "lag_bytes": ("lag", "bytes"),
    "lag_seconds": ("lag", "seconds"),
    "lag_largest_partition_records": ("lag", "largest_records"),
    "lag_largest_partition_bytes": ("lag", "largest_bytes"),
    "lagging_partitions": ("lag", "lagging"),
    "partitions": ("lag", "partitions"),
    "recorder_pace_seconds": ("recorder", "every_seconds"),
    "recorder_pairs_waiting": ("recorder", "pairs_waiting"),
    "recorder_pairs_wait_seconds": ("recorder", "pairs_wait_seconds"),
}
_LASTING = {"last_run_downtime_seconds": ("last_run", "downtime_seconds")}
_SIGNS = {
    "heartbeat_timestamp_seconds": "heartbeat",
    "checkpoint_timestamp_seconds": "checkpoint",
    "offset_sync_timestamp_seconds": "offset_sync",
    "recorder_last_sample_timestamp_seconds": "sample",
}
_TIMES = {
    "last_drill_timestamp_seconds": ("last_drill", "ended_at"),
    "last_run_timestamp_seconds": ("last_run", "closed_at"),
}


def values_of_document(
    flow: tuple[str, str], document: Mapping[str, Any] | None, now: datetime, recorder_signs: bool = False
) -> list[MetricValue]:
    """Return the values of a flow's readiness document.

    Args:
        document: None if it is missing, or could not be read.
        now: when the values are read. Of a stale document the state is UNKNOWN, and what was true of the flow then is
            left out.
        recorder_signs: whether the journal notes each sample, so that the document's older time is left out.
    """
    checked = None if document is None else parse_moment(document.get("checked_at"))
    if document is None or checked is None or document.get("state") not in list(State):
        return [MetricValue("document_up", 0, flow), *_one_hot("readiness_state", flow, State, State.UNKNOWN)]
    stale_after = parse_moment(document.get("stale_after"))
    values = [
        MetricValue("document_up", 1, flow),
        *_one_hot("readiness_state", flow, State, state_of(document, now)),
        MetricValue("readiness_checked_timestamp_seconds", checked.timestamp(), flow),
        *_figures(flow, document, _LASTING),
        *_signs(flow, document, checked),
        *_drill_and_certificates(flow, document),
    ]
    if stale_after is not None and now <= stale_after:
        values.append(MetricValue("flow_at_rest", int(document.get("at_rest") is True), flow))
        values += [*_findings(flow, document), *_figures(flow, document, _PRESENT)]
    return [one for one in values if not (recorder_signs and one.name == "recorder_last_sample_timestamp_seconds")]


def values_of_settings(flow: tuple[str, str], settings: Mapping[str, float | None]) -> list[MetricValue]:
    """Return the values of a flow's limits and objectives, name of the series -> value; None: there is none."""
    return [MetricValue(name, value, flow) for name, value in settings.items() if value is not None]


def _one_hot(name: str, labels: tuple[str, ...], words: Iterable[str], chosen: object) -> Iterator[MetricValue]:
    """Yield a value for each word: 1 for the chosen one, 0 for the others."""
    for word in words:
        yield MetricValue(name, int(word == chosen), (*labels, str(word)))


def _findings(flow: tuple[str, str], document: Mapping[str, Any]) -> Iterator[MetricValue]:
    findings = document.get("findings")
    if not isinstance(findings, list):
        return
    severities = [_map(finding).get("severity") for finding in findings]
    for gravity in Gravity:
        yield MetricValue("findings", severities.count(gravity.value), (*flow, gravity.value))


def _figures(
    flow: tuple[str, str], document: Mapping[str, Any], places: Mapping[str, tuple[str, str]]
) -> Iterator[MetricValue]:
    for name, (part, key) in places.items():
        if (value := _number(_map(document.get(part)).get(key))) is not None:
            yield MetricValue(name, value, flow)


def _signs(flow: tuple[str, str], document: Mapping[str, Any], checked: datetime) -> Iterator[MetricValue]:
    ages = _map(document.get("ages"))
    for name, sign in _SIGNS.items():
        if (age := _number(ages.get(sign))) is not None:
            yield MetricValue(name, checked.timestamp() - age, flow)


def _drill_and_certificates(flow: tuple[str, str], document: Mapping[str, Any]) -> Iterator[MetricValue]:
    times = {name: parse_moment(_map(document.get(part)).get(key)) for name, (part, key) in _TIMES.items()}
    times["next_drill_due_timestamp_seconds"] = parse_moment(document.get("next_drill_due"))
    ends = [parse_moment(end) for end in _map(document.get("certificates")).values()]
    times["certificate_end_timestamp_seconds"] = min((end for end in ends if end is not None), default=None)
    for name, moment in times.items():
        if moment is not None:
            yield MetricValue(name, moment.timestamp(), flow)
    verdict = _map(document.get("last_drill")).get("verdict")
    if verdict in VERDICTS:
        yield from _one_hot("last_drill_verdict", flow, VERDICTS, verdict)


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _number(value: Any) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        return value if math.isfinite(value) else None
    except OverflowError:
        return None
