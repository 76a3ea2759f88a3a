"""Record MirrorMaker 2's offset syncs and checkpoints as they appear: compaction removes older ones.

Invariant: a record is written down once, also by a recorder that goes on for another. Read again later, it would look
newer than what was seen of its topic meanwhile.
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

LOCATION = "offset-syncs.topic.location"
#: Read of one partition at one sample: millions may wait for a recorder that was just started.
_MOST_RECORDS = 50_000


class Statement(NamedTuple):
    """A record of one of these topics, not decoded yet."""

    where: TopicPartition
    offset: int
    key: bytes | None
    value: bytes | None


class MirrorTopics:
    """Reads a flow's syncs and checkpoints on from where they were read to."""

    def __init__(
        self, flow: Flow, naming: Naming, access: Access, read_before: Callable[[], Mapping[RowPlace, int]]
    ) -> None:
        """Nothing is read yet.

        Args:
            read_before: how far earlier recorders came; asked until it answers, and nothing is read before.
        """
        self._flow, self._naming, self._access = flow, naming, access
        self._read_before = read_before
        self._read: dict[RowPlace, int] | None = None

    @property
    def read_to(self) -> list[list[Any]] | None:
        """How far was read, for the sample's own row: places with the next offset; None where nobody knows yet."""
        return None if self._read is None else [[*place, offset] for place, offset in self._read.items()]

    def write_syncs(self, rows: RecorderRows, location: str | None, source: Side, target: Side) -> list[str]:
        """Write new offset syncs and return problems with some; a side that did not answer is not read.

        Args:
            location: `source` or `target`; None where nobody says it.

        Raises:
            BadInput: nobody says it. A topic of the same name may be there all the same: the flow the other way keeps
                its own under it.
            SwitchbackError: they cannot be read.
        """
        access, naming = self._access, self._naming
        if location is None:
            raise BadInput(
                "nobody says where MirrorMaker 2 keeps them",
                f"its worker has not answered, and the topology does not state {LOCATION}",
            )
        if location == "target":
            found = self._new(access.target_records, target, naming.offset_syncs_topic(self._flow.source))
        else:
            found = self._new(access.source_records, source, naming.offset_syncs_topic(self._flow.target))
        return self._write(
            rows, Kind.SYNC, found, decode_offset_syncs([s.key for s in found], [s.value for s in found])
        )

    def write_checkpoints(self, rows: RecorderRows, target: Side) -> list[str]:
        """Write down new checkpoints; answers what is wrong with some of them."""
        found = self._new(self._access.target_records, target, self._naming.checkpoints_topic(self._flow.source))
        return self._write(
            rows, Kind.CHECKPOINT, found, decode_checkpoints([s.key for s in found], [s.value for s in found])
        )

    def _new(self, reader: RecordReader, side: Side, topic: str) -> list[Statement]:
        """Records since the last time; all that are left, the first time."""
        if self._read is None:
            self._read = dict(self._read_before())
        info = side.topics.get(topic)
        places = {TopicPartition(topic, p): RowPlace(info.topic_id, topic, p) for p in info.partitions} if info else {}
        spans = reader.spans(places, ASK_SECONDS)
        new = {tp: OffsetSpan(max(span.start, self._read.get(places[tp], 0)), span.end) for tp, span in spans.items()}
        found = list(reader.scan(new, ASK_SECONDS, _MOST_RECORDS, take=_stated))
        counts, last = Counter(s.where for s in found), {s.where: s.offset for s in found}
        self._read |= {
            place: last[tp] + 1 if counts[tp] >= _MOST_RECORDS else spans[tp].end for tp, place in places.items()
        }
        return found

    def _write(self, rows: RecorderRows, kind: Kind, found: list[Statement], decoded: Decoded[Any]) -> list[str]:
        unreadable = {index for index, _ in decoded.malformed}
        sequence = [statement.offset for index, statement in enumerate(found) if index not in unreadable]
        columns: dict[str, list[object]] = {
            name: [getattr(one, name) for one in decoded.records]
            for name in ("topic", "partition", "upstream", "downstream")
        }
        if kind is Kind.CHECKPOINT:
            columns["group"] = [one.group for one in decoded.records]
        if sequence:
            rows.extend(kind, sequence=sequence, **columns)
        return (
            [f"{len(unreadable)} of {len(found)} records cannot be what they should be: {kind.value}s"]
            if unreadable
            else []
        )


def _stated(message: Consumed) -> Statement:
    return Statement(
        TopicPartition(message.topic(), message.partition()), message.offset(), message.key(), message.value()
    )


def read_so_far(archive: Archive) -> dict[RowPlace, int]:
    """How far MirrorMaker 2's topics were read, by the newest sample that says it.

    Raises:
        ArchiveUnavailable: it cannot be read.
    """
    for hour in archive.back(SAMPLES, ["at", "kind", "details"]):
        samples = hour.filter(pc.equal(hour["kind"], Kind.SAMPLE.value)).sort_by([("at", "descending")])
        for details in samples["details"].to_pylist():
            read_to = sample_details(details).get("read_to")
            if read_to is not None:
                return {RowPlace(*place): offset for *place, offset in read_to}
    return {}
