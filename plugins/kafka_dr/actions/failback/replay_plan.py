"""Which stranded records are written again, and where."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kafka_dr.actions.failback.stranded_decision import planned_return
from kafka_dr.actions.failback.stranded_export import (
    ExportedPartition,
    exported_partitions,
)
from kafka_dr.actions.scope.topic_settings import uses_append_time
from kafka_dr.domain.failback.replay import (
    Fate,
    fate_of,
    size_of,
)
from kafka_dr.domain.failback.stranded import Decision
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.mirror_maker.naming import topic_problem
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import NotReady
from kafka_dr.hooks.brokers.record import Record
from kafka_dr.procedure.entries import StrandedRecordsFound
from kafka_dr.procedure.run import Run

#: How far replays are, in a topic of our own on the new primary. It is read whole, and kept for ever: it is small.
KEPT_FOR_EVER = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
#: A quarantine takes what the topic took, and two headers more.
KEPT_WHOLE = {**KEPT_FOR_EVER, "max.message.bytes": str(2**31 - 1)}
_QUARANTINE = ".stranded"
LARGEST_BATCH, LARGEST_DEFAULT, _ANY = 1_000_000, 1_048_588, 2**63 - 1
#: The two headers that are added, of the longest names; a batch of the record alone still has room for them.
_MARKS_BYTES = 1_000


@dataclass(frozen=True)
class ReplayPart:
    """One partition's stranded records, and where they go.

    Attributes:
        place: topic and partition on the new primary.
        decision: replay or quarantine.
        compacted: a value is dropped where its key was written later on the new primary.
        needs_key: the topic there takes no record without a key.
        restamps: the broker there sets the timestamps.
        largest: bytes that a batch may have there.
        older: how many milliseconds before its writing a record's timestamp may lie there.
        newer: and after it.
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
        """Where the records stood."""
        return self.stranded.topic_partition

    def fate(self, record: Record, written_later: Any = frozenset()) -> Fate:
        """What becomes of one of them."""
        return fate_of(record.offset, record.key, self.stranded.uncommitted, self.needs_key, written_later)

    def stamp(self, record: Record) -> int | None:
        """The timestamp that a record can be given again; the client takes 0 for none."""
        return record.timestamp if record.timestamp is not None and record.timestamp > 0 else None

    def doubtful(self, record: Record, now: float) -> bool:
        """Whether the new primary may refuse a record for its size, uncompressed, or its age; `now` in s since 1970."""
        age = now * 1000 - (self.stamp(record) or now * 1000)
        return bytes_of(record) > self.largest or not -self.newer < age < self.older


def decided_on(procedure: Run) -> list[tuple[ExportedPartition, Decision]]:
    """Partitions whose records are to be written, with decisions; files are verified against the journal."""
    decisions = planned_return(procedure).decisions
    wanted = {
        topic: decision for topic, decision in decisions.items() if decision in (Decision.REPLAY, Decision.QUARANTINE)
    }
    if not wanted:
        return []
    there = [one for one in exported_partitions(procedure) if one.topic in wanted]
    for one in there:
        one.verify()
    return [(one, wanted[one.topic]) for one in there if one.count()]


def place_of(one: ExportedPartition, decision: Decision) -> TopicPartition:
    """Where records go: clients write to topics under their own names, whatever MirrorMaker 2 calls its copies."""
    return TopicPartition(one.topic if decision is Decision.REPLAY else one.topic + _QUARANTINE, one.partition)


def parts_of(procedure: Run) -> list[ReplayPart]:
    """What is to be written and where, as the topics of the new primary are now.

    Raises:
        NotReady: a topic or partition is not there any more, or a quarantine cannot be made.
    """
    wanted = decided_on(procedure)
    if not wanted:
        return []
    refuse_without_place(procedure, wanted)
    compacted = set(procedure.progress.require(StrandedRecordsFound).compacted)
    configs = procedure.systems.source.configs({place_of(*one).topic for one in wanted})
    parts = [
        _part(one, decision, configs.get(place_of(one, decision).topic, KEPT_WHOLE), one.topic in compacted)
        for one, decision in wanted
    ]
    unfit = sorted({part.place.topic for part in parts if part.decision is Decision.QUARANTINE and part.needs_key})
    if unfit:
        raise NotReady(
            "A topic for the quarantine is compacted: it would not keep every record",
            first_few(unfit),
            "Set its cleanup.policy to delete and start a new run; or one with another decision.",
        )
    return parts


def _part(one: ExportedPartition, decision: Decision, config: Mapping[str, str], compacted: bool) -> ReplayPart:
    needs_key = "compact" in config.get("cleanup.policy", "")
    return ReplayPart(
        stranded=one,
        place=place_of(one, decision),
        decision=decision,
        compacted=decision is Decision.REPLAY and (compacted or needs_key),
        needs_key=needs_key,
        restamps=uses_append_time(config),
        largest=int(config.get("max.message.bytes", LARGEST_DEFAULT)),
        older=int(config.get("message.timestamp.before.max.ms", _ANY)),
        newer=int(config.get("message.timestamp.after.max.ms", _ANY)),
    )


def refuse_without_place(procedure: Run, wanted: Iterable[tuple[ExportedPartition, Decision]]) -> None:
    """Refuse replay to a deleted topic or one with fewer partitions, and a quarantine with an illegal name."""
    everything = [(place_of(one, decision), decision) for one, decision in wanted]
    places = [place for place, decision in everything if decision is Decision.REPLAY]
    topics = procedure.systems.source.topics({place.topic for place in places}) if places else {}
    gone = [
        place for place in places if place.topic not in topics or place.partition not in topics[place.topic].partitions
    ]
    if gone:
        seen = f"{len(gone)} partitions are not on {procedure.request.source}: {first_few(gone)}"
        raise NotReady(
            "Stranded records are to be replayed to topics that are not there",
            seen,
            "Make these topics with as many partitions and start a new run; or one with another decision for them.",
        )
    illegal = [problem for place, _ in everything if (problem := topic_problem(place.topic))]
    if illegal:
        raise NotReady(
            "A topic for the quarantine would have no legal name",
            illegal[0],
            "Decide otherwise for this topic in a new run; its records are in the export.",
        )


def bytes_of(record: Record) -> int:
    """Bytes of a record's key, value and headers."""
    return size_of(record.key, record.value, record.headers) + _MARKS_BYTES
