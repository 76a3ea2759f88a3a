"""The table of series: every metric that Switchback exposes, with its labels and its meaning.

Invariants
1. Every label has few values: aliases, DAG ids, steps, and the words of an enumeration. No topic, group or run is one.
2. A figure that is unknown has no value; it is never 0.
3. Times are seconds since 1970, so that an age grows while nothing is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

PREFIX = "switchback_"
_FLOW = ("source", "target")


class MetricValue(NamedTuple):
    """One value of a series; `labels` are the values of the series' labels, in their order."""

    name: str
    value: float
    labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Series:
    """One metric, without its prefix.

    Attributes:
        meaning: one sentence; Prometheus shows it as HELP.
        live: whether it is true for seconds only, so that the file, which is written every five minutes, leaves it out.
    """

    meaning: str
    labels: tuple[str, ...] = ()
    live: bool = False


_READING = {
    "up": Series("1 if everything that this scrape reads could be read, 0 otherwise."),
    "journal_up": Series("1 if the journal answers, 0 otherwise."),
    "generated_timestamp_seconds": Series("When these metrics were read; the journal's clock if it answers."),
    "document_up": Series("1 if the flow's readiness document could be read, 0 otherwise.", _FLOW),
}
_READINESS = {
    "readiness_state": Series(
        "1 for the flow's readiness state, 0 for the others; UNKNOWN without a document, or if it is stale.",
        (*_FLOW, "state"),
    ),
    "readiness_checked_timestamp_seconds": Series("When the flow was last checked.", _FLOW),
    "flow_at_rest": Series("1 if the flow is stopped on purpose because the opposite flow runs.", _FLOW),
    "findings": Series("Number of findings of the last check, by gravity.", (*_FLOW, "gravity")),
    "forecast_certain_records": Series("Records that are lost at least if the source is lost now.", _FLOW),
    "forecast_possible_records": Series("Records that are lost at most if the source is lost now.", _FLOW),
    "forecast_reread_records": Series("Bound of one position's re-reads, by the flow's last runs.", _FLOW),
    "forecast_downtime_seconds": Series("Clients' downtime, by the flow's last runs.", _FLOW),
    "lag_records": Series("Source offsets without a copy on the target, at most, of all partitions.", _FLOW),
    "lag_bytes": Series("Bytes of these offsets, estimated.", _FLOW),
    "lag_seconds": Series("Age of the oldest record without a copy.", _FLOW),
    "lag_largest_partition_records": Series("Largest lag of one partition.", _FLOW),
    "lag_largest_partition_bytes": Series("Largest lag of one partition, in estimated bytes.", _FLOW),
    "lagging_partitions": Series("Number of partitions that lag.", _FLOW),
    "partitions": Series("Number of partitions that were compared.", _FLOW),
    "lag_limit_records": Series("Limit lag_records of the flow in the topology.", _FLOW),
    "lag_limit_bytes": Series("Limit lag_bytes of the flow in the topology.", _FLOW),
    "lag_limit_seconds": Series("Limit record_age_seconds of the flow in the topology.", _FLOW),
    "heartbeat_timestamp_seconds": Series("When the newest mirrored heartbeat was written on the source.", _FLOW),
    "checkpoint_timestamp_seconds": Series("When the newest checkpoint was written.", _FLOW),
    "offset_sync_timestamp_seconds": Series("When the newest offset sync was written.", _FLOW),
    "certificate_end_timestamp_seconds": Series("End of the certificate that ends first.", _FLOW),
}
_DRILLS_AND_RUNS = {
    "last_drill_timestamp_seconds": Series("End of the flow's newest drill.", _FLOW),
    "last_drill_verdict": Series("1 for the verdict of this drill, 0 for the others.", (*_FLOW, "verdict")),
    "next_drill_due_timestamp_seconds": Series("When the next drill of the flow is due.", _FLOW),
    "last_run_timestamp_seconds": Series("End of the newest completed run that moved clients.", _FLOW),
    "last_run_downtime_seconds": Series("Clients' downtime in this run: the recovery time achieved.", _FLOW),
    "rto_objective_seconds": Series("Objective rto_seconds of the flow in the topology.", _FLOW),
    "procedure_ended_timestamp_seconds": Series(
        "Last end of a procedure of this DAG, among the newest 200 ends.", (*_FLOW, "dag_id")
    ),
    "procedure_outcome": Series("1 for the outcome of this end, 0 for the others.", (*_FLOW, "dag_id", "outcome")),
}
_SERVICES = {
    "recorder_last_sign_timestamp_seconds": Series(
        "When the flight recorder's process last showed life; it does only where the topology has `notifications`."
    ),
    "recorder_last_sample_timestamp_seconds": Series(
        "When the newest sample that counts was stored; without keys of the recorder, as of the last check.", _FLOW
    ),
    "recorder_pace_seconds": Series(
        "Interval at which the recorder takes samples, as the median of its last samples.", _FLOW
    ),
    "recorder_pairs_waiting": Series("Partitions with new records for which it found no content pair yet.", _FLOW),
    "recorder_pairs_wait_seconds": Series("For how long the oldest of them has waited.", _FLOW),
    "recorder_interval_seconds": Series("Setting interval_seconds of the recorder in the topology."),
    "watcher_last_sign_timestamp_seconds": Series("When watch_old_source last showed life."),
    "notices_undelivered": Series("Notices of the last 24 hours that were not sent, by state.", ("state",)),
}
_LIVE = {
    "pair_held": Series("1 while a procedure holds the clusters of the flow, also after it has failed.", _FLOW, True),
    "procedure_running": Series("1 while the procedure that holds them has not ended.", _FLOW, True),
    "procedure_info": Series("1 for a running procedure, its DAG and its step.", (*_FLOW, "dag_id", "step"), True),
    "fence_on": Series("1 while a planned failover or failback keeps clients from writing.", _FLOW, True),
    "fence_seconds_left": Series("Time until the procedure returns to the source by itself.", _FLOW, True),
    "fence_limit_seconds": Series("Deadline max_fence_seconds of the procedure.", _FLOW, True),
    "gate_open": Series("1 while a gate waits for a person's answer.", _FLOW, True),
    "gate_seconds_left": Series("Time in which the gate can be answered.", _FLOW, True),
    "anchors_missed": Series("Notes of the newest procedure about anchors that a place did not take.", _FLOW, True),
}
#: Name without prefix -> series.
SERIES: Mapping[str, Series] = {**_READING, **_READINESS, **_DRILLS_AND_RUNS, **_SERVICES, **_LIVE}
