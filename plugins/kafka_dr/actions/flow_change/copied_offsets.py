"""Find out, by content, how far each partition of a stopped flow is copied; Connect's own offsets may be behind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kafka_dr.actions.flow_change.changed_flow import changed_flow
from kafka_dr.actions.replication.stop import wait_for_stable_target_ends
from kafka_dr.actions.scope.topic_settings import append_time_in
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.mirror_maker.flow_filter import FlowFilter
from kafka_dr.domain.readiness.alike_connectors import isolation_of
from kafka_dr.domain.replication.copied_tail import CopiedTail
from kafka_dr.hooks.brokers.record import OffsetSpan, digest_of
from kafka_dr.procedure.run import Run

#: How many source records of a partition are searched at most, and how many first.
_MOST_SEARCHED, _SEARCHED_FIRST, _GROWTH = 2_000_000, 500, 10
_SEARCH_SECONDS = 300.0


@dataclass(frozen=True)
class MirroredPartition:
    """A source partition that the flow mirrors, and its copy on the target.

    Attributes:
        log: the source's log; `copy`: the target partition.
        copy_end: the target's log end; 0 if the target partition does not exist yet.
        stored: the last replicated offset that Connect stores; None for none.
        append_time: whether the target replaces the timestamps of copied records.
    """

    source: TopicPartition
    log: OffsetSpan
    copy: TopicPartition
    copy_end: int
    stored: int | None
    append_time: bool

    @property
    def may_lag(self) -> bool:
        """Whether records after the stored offset may have been copied."""
        return self.copy_end > 0 and (self.stored is None or self.stored + 1 < self.log.end)


def wait_for_stable_copies(procedure: Run, step: str) -> dict[TopicPartition, int]:
    """Wait until the log ends of the flow's copies on the target stand still, and return them.

    Raises:
        DeadlinePassed: a log end still moves.
    """
    partitions = mirrored_partitions(procedure, changed_flow(procedure).topic_filter())
    return wait_for_stable_target_ends(procedure, step, sorted({one.copy for one in partitions if one.copy_end}))


def mirrored_partitions(procedure: Run, mirrors: FlowFilter) -> list[MirroredPartition]:
    """Return the partitions that the flow mirrors by these filters, heartbeats included."""
    naming, flow, systems = procedure.naming, procedure.flow, procedure.systems
    infos = systems.source.topics()
    partitions = [
        TopicPartition(topic, number)
        for topic, info in sorted(infos.items())
        if mirrors.selects(topic)
        for number in info.partitions
    ]
    copies = {tp: TopicPartition(naming.remote(flow.source, tp.topic), tp.partition) for tp in partitions}
    there = systems.target.topics({copy.topic for copy in copies.values()})
    existing = [
        copy for copy in copies.values() if copy.topic in there and copy.partition in there[copy.topic].partitions
    ]
    append_time = append_time_in(systems.target.configs(sorted(there)))
    starts, ends, copy_ends = (
        systems.source.starts(partitions),
        systems.source.ends(partitions),
        systems.target.ends(existing),
    )
    stored = procedure.mirror_maker(flow).offsets().of(flow.source)
    return [
        MirroredPartition(
            tp,
            OffsetSpan(starts[tp], ends[tp]),
            copy,
            copy_ends.get(copy, 0),
            stored.get(tp),
            copy.topic in append_time,
        )
        for tp, copy in copies.items()
    ]


def copied_tails(procedure: Run, partitions: Iterable[MirroredPartition]) -> dict[TopicPartition, CopiedTail]:
    """Return source partition -> how far it is copied, by the target's last record; the flow must be stopped."""
    listed = list(partitions)
    tails = {one.source: CopiedTail(one.stored, None, proven=not one.may_lag) for one in listed}
    pending = {one.source: one for one in listed if one.may_lag}
    last = procedure.systems.reader(procedure.request.target).last_records(
        (one.copy for one in pending.values()), take=digest_of
    )
    wanted = {
        tp: record.fingerprint(with_timestamp=not one.append_time)
        for tp, one in pending.items()
        if (record := last[one.copy].last) is not None
    }
    return tails | _search(procedure, {tp: pending[tp] for tp in wanted}, wanted)


def _search(
    procedure: Run, pending: dict[TopicPartition, MirroredPartition], wanted: Mapping[TopicPartition, str]
) -> dict[TopicPartition, CopiedTail]:
    """Search the source, from the stored offset on, for records with the wanted fingerprints."""
    reader = procedure.systems.reader(procedure.request.source, isolation_of(changed_flow(procedure).source_config()))
    copied: dict[TopicPartition, int] = {}
    begin = {tp: max(one.log.start, one.stored or 0) for tp, one in pending.items()}
    size, searched = _SEARCHED_FIRST, 0
    while searched < _MOST_SEARCHED:
        spans = {
            tp: OffsetSpan(begin[tp] + searched, min(one.log.end, begin[tp] + searched + size))
            for tp, one in pending.items()
            if tp not in copied and begin[tp] + searched < one.log.end
        }
        for record in reader.scan(spans, _SEARCH_SECONDS, take=digest_of):
            tp = record.topic_partition
            if tp not in copied and record.fingerprint(not pending[tp].append_time) == wanted[tp]:
                copied[tp] = record.offset
        searched, size = searched + size, size * _GROWTH
    return {tp: CopiedTail(one.stored, copied.get(tp), proven=tp in copied) for tp, one in pending.items()}
