"""Read a drill's records on both clusters after a pass, and count what became of them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd

from kafka_dr.actions.drill.ledger import DrillLedger
from kafka_dr.domain.drill.facts import Integrity
from kafka_dr.domain.drill.records import NumberedRecord, PassLogs, count_pass, record_number
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.hooks.brokers.record import record_of
from kafka_dr.procedure.drill_run import PrivateInstallation
from kafka_dr.procedure.systems import Systems
from kafka_dr.vocabulary import Step

_READ_SECONDS = 120.0
_COLUMNS = ["group", "topic", "partition", "position", "target_topic", "target_position"]


def count_records(
    systems: Systems,
    private: PrivateInstallation,
    evidence: Mapping[str, Any],
    ends: tuple[str, str],
    cut_at: float | None,
) -> Integrity:
    """Return what a pass did to the drill's records and positions.

    Args:
        systems: of the drill's private installation; both clusters are read.
        evidence: the pass's.
        ends: source and target of the pass.
        cut_at: when the drill took the source away, in seconds since 1970; None if it did not.
    """
    # The ledger first: what is acknowledged while the logs are read may be missing in them.
    written = frozenset(DrillLedger(private.folder).numbers())
    logs = PassLogs(written, *(_read_log(systems, private, alias) for alias in ends))
    positions = _positions(private.folder / evidence["procedure_id"], evidence)
    return count_pass(logs, positions, evidence.get("loss") or (), cut_at, _left_at(evidence))


def _read_log(systems: Systems, private: PrivateInstallation, alias: str) -> list[NumberedRecord]:
    """Return the drill's records in a cluster's logs, mirrored ones included, in the order of the logs."""
    reader, info = systems.reader(alias), systems.cluster(alias).topics(private.topics_on(alias))
    spans = reader.spans(TopicPartition(topic, number) for topic in info for number in info[topic].partitions)
    records = reader.scan(spans, _READ_SECONDS, take=record_of)
    return [
        NumberedRecord(record.topic_partition, record.offset, number, record.timestamp or 0)
        for record in records
        if (number := record_number(record.value)) is not None
    ]


def _positions(folder: Path, evidence: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of a pass's file of positions; a target position that was not computed is None."""
    path = folder / (evidence.get("positions") or "none")
    if not path.exists():
        return []
    rows = pd.read_parquet(path, columns=_COLUMNS).to_dict("records")
    return [{str(key): None if pd.isna(value) else value for key, value in row.items()} for row in rows]


def _left_at(evidence: Mapping[str, Any]) -> float | None:
    """Return when clients were redirected, in seconds since 1970."""
    steps = {step["id"]: step for step in evidence.get("steps") or ()}
    at = steps.get(Step.REDIRECT_CLIENTS, {}).get("ended_at")
    return datetime.fromisoformat(at).timestamp() if at else None
