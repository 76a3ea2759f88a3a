"""Write to files what is lost with a target topic: records that only the target holds, positions, settings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from kafka_dr.actions.failback.topic_recreation import replicas_of
from kafka_dr.actions.re_replication.groups import (
    asked_positions,
    source_positions,
    target_positions,
    with_source_places,
    without_source,
)
from kafka_dr.actions.re_replication.older_copies import OlderCopies, OlderCopiesReader
from kafka_dr.actions.re_replication.scope import ChosenTopics, planned_copies, planned_topics
from kafka_dr.actions.record_exports import record_parts
from kafka_dr.actions.scope.position_frames import partitions_frame
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import NotReady
from kafka_dr.hooks.brokers.record import Record
from kafka_dr.procedure.entries import Receipt, TargetTopicsExported
from kafka_dr.procedure.run import Run

#: Most records and bytes in one file of exported records.
_RECORDS, _BYTES = 20_000, 64_000_000


@dataclass(frozen=True)
class TopicSettings:
    """A target topic as it was before the run.

    Attributes:
        replicas: replication factor; 0 if unknown.
        settings: the settings on the topic itself.
    """

    topic_id: str
    partitions: int
    replicas: int
    settings: Mapping[str, str]


def export_target(procedure: Run) -> TargetTopicsExported:
    """Write the files, and return their receipts; each is private, and named after its content.

    Raises:
        NotReady: since the approval the target got records that only the target holds.
    """
    chosen, plan = planned_topics(procedure), planned_copies(procedure)[0]
    positions = target_positions(chosen)
    lacking = without_source(chosen, positions, source_positions(chosen, sorted(set(positions["group"]))))
    export = _RecordFiles(procedure)
    older = dict(OlderCopiesReader(chosen).read(asked_positions(lacking), export.add))
    refuse_more(procedure, older, sum(topic.target_only for topic in plan.copied_topics))
    places = {tp: copies.positions for tp, copies in older.items()}
    ends = {chosen.partitions[tp]: copies.end for tp, copies in older.items() if tp in chosen.existing}
    return TargetTopicsExported(
        target_only=export.count,
        records=export.close(),
        positions=procedure.artifacts.save("target_positions", positions),
        source_positions=procedure.artifacts.save("derived_positions", with_source_places(chosen, lacking, places)),
        settings=procedure.artifacts.save_json("target_settings", settings_now(chosen)),
        ends=procedure.artifacts.save("exported_ends", partitions_frame(ends, "offset")),
        exports=procedure.topology.exports.form,
    )


def refuse_more(procedure: Run, older: Mapping[TopicPartition, OlderCopies], approved: int) -> None:
    """Refuse if the target holds more records that the source lacks than the approved plan states."""
    now = sum(copies.target_only for copies in older.values())
    if now > approved:
        raise NotReady(
            f"{procedure.request.target} got records that only it holds after the plan was approved",
            f"{now} such records, of which {approved} were approved",
            "Nothing was deleted. Find out which client writes to these topics, and stop it. Then start a new run: its"
            " plan names these records.",
        )


def settings_now(chosen: ChosenTopics) -> dict[str, Any]:
    """Return target topic -> its id, partitions, replicas and own settings, as plain JSON data."""
    return {
        name: {
            "topic_id": info.topic_id,
            "partitions": len(info.partitions),
            "replicas": replicas_of(info),
            "settings": own_settings(chosen.target_settings[name]),
        }
        for name, info in sorted(chosen.target_topics.items())
    }


def own_settings(settings: Any) -> dict[str, str]:
    """Return the settings on the topic itself."""
    return {key: settings[key] for key in sorted(settings.overrides)}


def load_settings(procedure: Run, receipt: Receipt) -> dict[str, TopicSettings]:
    """Return target topic -> what was exported, or noted before a deletion, of it."""
    return {name: TopicSettings(**topic) for name, topic in procedure.artifacts.load_json(receipt).items()}


class _RecordFiles:
    """Collects exported records in Parquet files of bounded size.

    Attributes:
        count: number of records so far.
    """

    def __init__(self, procedure: Run) -> None:
        self._procedure, self._artifacts = procedure, procedure.artifacts
        connection = procedure.topology.exports.connection
        self._secret = procedure.systems.connections.export_secret(connection) if connection else None
        self._rows: list[tuple[Any, ...]] = []
        self._bytes = self.count = 0
        self._receipts: list[Receipt] = []

    def add(self, record: Record) -> None:
        key, value, headers = record_parts(self._procedure, record, self._secret)
        text = json.dumps([[name, None if content is None else content.hex()] for name, content in headers])
        size = None if record.value is None else len(record.value)
        self._rows.append((*record[:4], key, value, size, text))
        self._bytes, self.count = self._bytes + record.size, self.count + 1
        if len(self._rows) >= _RECORDS or self._bytes >= _BYTES:
            self._write()

    def close(self) -> list[Receipt]:
        if self._rows:
            self._write()
        return self._receipts

    def _write(self) -> None:
        columns = ["topic", "partition", "offset", "timestamp", "key", "value", "value_bytes", "headers"]
        frame = pd.DataFrame(self._rows, columns=columns).astype(dict.fromkeys(("timestamp", "value_bytes"), "Int64"))
        self._receipts.append(self._artifacts.save("only_on_target", frame))
        self._rows, self._bytes = [], 0
