"""Choose the stranded records to replay or quarantine, and the new primary's partitions that receive them.

A *place* is the partition of the new primary that receives one partition's stranded records. For the decision replay,
it belongs to the topic with the same name. For the decision quarantine, it belongs to a quarantine topic. The *mark* of
a key is the first 16 bytes of its SHA-256.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kafka_dr.actions.failback.stranded_decision import planned_return
from kafka_dr.actions.failback.stranded_export import ExportedPartition, exported_partitions
from kafka_dr.actions.scope.topic_settings import uses_append_time
from kafka_dr.domain.failback.replay import Fate, fate_of, size_of
from kafka_dr.domain.failback.stranded import Decision
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.mirror_maker.naming import topic_problem
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import NotReady
from kafka_dr.hooks.brokers.record import Record
from kafka_dr.procedure.entries import StrandedRecordsFound
from kafka_dr.procedure.run import Run

#: Settings of the progress topic on the new primary; the topic is small, read whole, and never expires.
KEPT_FOR_EVER = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
#: Settings of a quarantine topic: it must accept each record of the original topic, plus two headers.
KEPT_WHOLE = {**KEPT_FOR_EVER, "max.message.bytes": str(2**31 - 1)}
_QUARANTINE = ".stranded"
LARGEST_BATCH, LARGEST_DEFAULT, _ANY = 1_000_000, 1_048_588, 2**63 - 1
#: Upper bound in bytes of the two added headers, with the longest topic and procedure names.
_MARKS_BYTES = 1_000


@dataclass(frozen=True)
class ReplayPart:
    """One partition's stranded records, and the partition of the new primary that receives them.

    Attributes:
        place: topic and partition on the new primary.
        decision: replay or quarantine.
        compacted: whether a record is left out if clients wrote its key on the new primary since the failover.
        needs_key: whether the place's topic is compacted, and so refuses records without a key.
        restamps: whether the broker replaces the records' timestamps (LogAppendTime).
        largest: largest batch that the place's topic accepts, in bytes.
        older: how far a record's timestamp may lie before the time of writing, in milliseconds.
        newer: how far a record's timestamp may lie after the time of writing, in milliseconds.
    """

    stranded: ExportedPartition
    place: TopicPartition
    decision: Decision
    compacted: bool = False
    needs_key: bool = False
    restamps: bool = False
    largest: int = LARGEST_DEFAULT
    older: int = _ANY
    newer: int = _ANY

    @property
    def origin(self) -> TopicPartition:
        """Partition of the returned cluster whose stranded records the part has."""
        return self.stranded.topic_partition

    def fate(self, record: Record, written_later: Any = frozenset()) -> Fate:
        """Return `Fate.WRITTEN` for a record to write, else the reason why the record is not written.

        Args:
            written_later: marks of the keys that clients have written to the place since the failover.
        """
        return fate_of(record.offset, record.key, self.stranded.uncommitted, self.needs_key, written_later)

    def stamp(self, record: Record) -> int | None:
        """Return the timestamp to write, in milliseconds since 1970; None to write the record without a timestamp.

        None if the record has no timestamp, or a timestamp of 0, which the Kafka client treats as no timestamp.
        """
        return record.timestamp if record.timestamp is not None and record.timestamp > 0 else None

    def doubtful(self, record: Record, now: float) -> bool:
        """Whether the new primary may refuse a record for its uncompressed size or its timestamp.

        Args:
            now: current time, in seconds since 1970.
        """
        age = now * 1000 - (self.stamp(record) or now * 1000)
        return bytes_of(record) > self.largest or not -self.newer < age < self.older


def decided_on(procedure: Run) -> list[tuple[ExportedPartition, Decision]]:
    """Return the exported partitions with records to replay or quarantine, each with its decision; [] if none has.

    The files of these partitions are verified against the digests in the journal.
    """
    decisions = planned_return(procedure).decisions
    writing = {
        topic: decision for topic, decision in decisions.items() if decision in (Decision.REPLAY, Decision.QUARANTINE)
    }
    if not writing:
        return []
    exported = [partition for partition in exported_partitions(procedure) if partition.topic in writing]
    for partition in exported:
        partition.verify(procedure.artifacts.files)
    return [(partition, writing[partition.topic]) for partition in exported if partition.count()]


def place_of(exported: ExportedPartition, decision: Decision) -> TopicPartition:
    """Return the new primary's partition to write to: of the topic of the same name, or of its quarantine topic."""
    return TopicPartition(
        exported.topic if decision is Decision.REPLAY else exported.topic + _QUARANTINE, exported.partition
    )


def parts_of(procedure: Run) -> list[ReplayPart]:
    """Return one part per partition to write, with the new primary's current topic settings; [] if there are none.

    Raises:
        NotReady: a topic or partition to replay to does not exist on the new primary, or a quarantine topic has an
            illegal name or is compacted.
    """
    wanted = decided_on(procedure)
    if not wanted:
        return []
    refuse_without_place(procedure, wanted)
    compacted = set(procedure.progress.require(StrandedRecordsFound).compacted)
    configs = procedure.systems.source.configs({place_of(*pair).topic for pair in wanted})
    parts = [
        _part(
            exported, decision, configs.get(place_of(exported, decision).topic, KEPT_WHOLE), exported.topic in compacted
        )
        for exported, decision in wanted
    ]
    unfit = sorted({part.place.topic for part in parts if part.decision is Decision.QUARANTINE and part.needs_key})
    if unfit:
        raise NotReady(
            "Quarantine topics are compacted, and compaction would delete records",
            f"on {procedure.request.source}: {first_few(unfit)}",
            "This try replayed no record. Set cleanup.policy of these topics to `delete`, then start a new run. Or"
            " start a new run with another decision than `quarantine` (param stranded) for the original topics.",
        )
    return parts


def _part(exported: ExportedPartition, decision: Decision, config: Mapping[str, str], compacted: bool) -> ReplayPart:
    needs_key = "compact" in config.get("cleanup.policy", "")
    return ReplayPart(
        stranded=exported,
        place=place_of(exported, decision),
        decision=decision,
        compacted=decision is Decision.REPLAY and (compacted or needs_key),
        needs_key=needs_key,
        restamps=uses_append_time(config),
        largest=int(config.get("max.message.bytes", LARGEST_DEFAULT)),
        older=int(config.get("message.timestamp.before.max.ms", _ANY)),
        newer=int(config.get("message.timestamp.after.max.ms", _ANY)),
    )


def refuse_without_place(procedure: Run, wanted: Iterable[tuple[ExportedPartition, Decision]]) -> None:
    """Refuse replay to partitions that the new primary lacks, and quarantine topics with an illegal name."""
    decided = [(place_of(exported, decision), decision) for exported, decision in wanted]
    places = [place for place, decision in decided if decision is Decision.REPLAY]
    topics = procedure.systems.source.topics({place.topic for place in places}) if places else {}
    missing = [
        place for place in places if place.topic not in topics or place.partition not in topics[place.topic].partitions
    ]
    if missing:
        detail = f"{len(missing)} partitions do not exist: {first_few(missing)}"
        raise NotReady(
            f"Stranded records cannot be replayed: partitions are missing on {procedure.request.source}",
            detail,
            "This try deleted no topic and replayed no record. Create these partitions on"
            f" {procedure.request.source}, then start a new run; or start a new run with another decision (param"
            " stranded) for these topics.",
        )
    illegal = [
        f"{place.topic}: {problem}" for place, _ in decided if (problem := topic_problem(place.topic)) is not None
    ]
    if illegal:
        raise NotReady(
            "A quarantine topic would have an illegal name",
            illegal[0],
            "This try deleted no topic and replayed no record; the export has the records. Start a new run, and decide"
            " replay or discard (param stranded) for the topic with whose name the illegal name begins.",
        )


def bytes_of(record: Record) -> int:
    """Return an upper bound of a record's bytes: key, value, headers, and the two headers added on replay."""
    return size_of(record.key, record.value, record.headers) + _MARKS_BYTES
