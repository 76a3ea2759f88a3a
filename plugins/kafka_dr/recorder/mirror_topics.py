"""Records MirrorMaker 2's offset syncs and checkpoints as they appear, because compaction removes older ones.

Invariant: each sync or checkpoint is recorded once, also across recorder restarts. Recorded a second time, it would get
the time of the later sample, and seem newer than samples of its topic that were taken in between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pyarrow.compute as pc

from kafka_dr.config.topology import Flow
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.mirror_maker.mirror_records import Decoded, decode_checkpoints, decode_offset_syncs
from kafka_dr.domain.mirror_maker.naming import Naming
from kafka_dr.domain.recorder_rows import Kind, RecorderRows, RowPlace, sample_details
from kafka_dr.errors import BadInput
from kafka_dr.hooks.archive import Archive
from kafka_dr.hooks.brokers.record import Consumed, OffsetSpan
from kafka_dr.hooks.brokers.record_reader import RecordReader
from kafka_dr.recorder.clients import ASK_SECONDS, Access, Side
from kafka_dr.recorder.loop import SAMPLES
from kafka_dr.recorder.signed_samples import SignedSamples

LOCATION = "offset-syncs.topic.location"
#: Limit of records read per partition and sample: millions may await a recorder that has just started.
_MOST_RECORDS = 50_000


class Statement(NamedTuple):
    """A record of MirrorMaker 2's offset-syncs or checkpoints topic, before decoding."""

    where: TopicPartition
    offset: int
    key: bytes | None
    value: bytes | None


class MirrorTopics:
    """Reads a flow's offset syncs and checkpoints; each sample begins at the offsets where the last sample stopped."""

    def __init__(
        self, flow: Flow, naming: Naming, access: Access, read_before: Callable[[], Mapping[RowPlace, int]]
    ) -> None:
        """Prepare the reader; nothing is read yet.

        Args:
            read_before: returns the offsets where earlier recorders stopped reading; called until it succeeds, before
                any record is read.
        """
        self._flow, self._naming, self._access = flow, naming, access
        self._read_before = read_before
        self._next_offsets: dict[RowPlace, int] | None = None

    @property
    def read_to(self) -> list[list[Any]] | None:
        """Return next offsets to read, each [topic id, topic, partition, offset]; None before `read_before` is read."""
        return (
            None if self._next_offsets is None else [[*place, offset] for place, offset in self._next_offsets.items()]
        )

    def write_syncs(self, rows: RecorderRows, location: str | None, source: Side, target: Side) -> list[str]:
        """Add the offset syncs since the last sample to `rows`; return [], or one text that counts undecodable records.

        A cluster that did not answer is not read.

        Args:
            rows: the sample's rows.
            location: the cluster with the offset-syncs topic, `source` or `target`; None if unknown.

        Raises:
            BadInput: the location is unknown. It is not guessed, because the reverse flow may have its own offset-syncs
                topic under the same name.
            SwitchbackError: the syncs cannot be read.
        """
        access, naming = self._access, self._naming
        if location is None:
            raise BadInput(
                "the cluster with the offset-syncs topic is unknown",
                f"the Connect worker has not answered, and the topology does not state {LOCATION}",
                f"start the Connect worker of {self._flow.source}->{self._flow.target}, or state {LOCATION} under"
                " `mirror_maker` of this flow in the topology",
            )
        if location == "target":
            statements = self._read_new(access.target_records, target, naming.offset_syncs_topic(self._flow.source))
        else:
            statements = self._read_new(access.source_records, source, naming.offset_syncs_topic(self._flow.target))
        return self._write(
            rows, Kind.SYNC, statements, decode_offset_syncs([s.key for s in statements], [s.value for s in statements])
        )

    def write_checkpoints(self, rows: RecorderRows, target: Side) -> list[str]:
        """Add the checkpoints since the last sample to `rows`; return [], or one text that counts undecodable records.

        Raises:
            SwitchbackError: the checkpoints cannot be read.
        """
        statements = self._read_new(
            self._access.target_records, target, self._naming.checkpoints_topic(self._flow.source)
        )
        return self._write(
            rows,
            Kind.CHECKPOINT,
            statements,
            decode_checkpoints([s.key for s in statements], [s.value for s in statements]),
        )

    def _read_new(self, reader: RecordReader, side: Side, topic: str) -> list[Statement]:
        """Return a topic's records since the last sample; without earlier samples, all records in its log."""
        if self._next_offsets is None:
            self._next_offsets = dict(self._read_before())
        info = side.topics.get(topic)
        places = {TopicPartition(topic, p): RowPlace(info.topic_id, topic, p) for p in info.partitions} if info else {}
        spans = reader.spans(places, ASK_SECONDS)
        unread = {
            tp: OffsetSpan(max(span.start, self._next_offsets.get(places[tp], 0)), span.end)
            for tp, span in spans.items()
        }
        statements = list(reader.scan(unread, ASK_SECONDS, _MOST_RECORDS, take=_as_statement))
        counts, last = Counter(s.where for s in statements), {s.where: s.offset for s in statements}
        self._next_offsets |= {
            place: last[tp] + 1 if counts[tp] >= _MOST_RECORDS else spans[tp].end for tp, place in places.items()
        }
        return statements

    def _write(self, rows: RecorderRows, kind: Kind, statements: list[Statement], decoded: Decoded[Any]) -> list[str]:
        unreadable = {index for index, _ in decoded.malformed}
        sequence = [statement.offset for index, statement in enumerate(statements) if index not in unreadable]
        columns: dict[str, list[object]] = {
            name: [getattr(record, name) for record in decoded.records]
            for name in ("topic", "partition", "upstream", "downstream")
        }
        if kind is Kind.CHECKPOINT:
            columns["group"] = [record.group for record in decoded.records]
        if sequence:
            rows.extend(kind, sequence=sequence, **columns)
        return (
            [f"{len(unreadable)} of {len(statements)} records are not readable as {kind.value}s"] if unreadable else []
        )


def _as_statement(message: Consumed) -> Statement:
    return Statement(
        TopicPartition(message.topic(), message.partition()), message.offset(), message.key(), message.value()
    )


def read_so_far(archive: Archive | SignedSamples) -> dict[RowPlace, int]:
    """Return where earlier recorders stopped reading MirrorMaker 2's topics, by the newest sample that states this.

    Returns:
        Next offset by topic id, topic and partition; {} if no sample states next offsets.

    Raises:
        ArchiveUnavailable: the archive cannot be read.
    """
    for hour in archive.back(SAMPLES, ["at", "kind", "details"]):
        samples = hour.filter(pc.equal(hour["kind"], Kind.SAMPLE.value)).sort_by([("at", "descending")])
        for details in samples["details"].to_pylist():
            read_to = sample_details(details).get("read_to")
            if read_to is not None:
                return {RowPlace(*place): offset for *place, offset in read_to}
    return {}
