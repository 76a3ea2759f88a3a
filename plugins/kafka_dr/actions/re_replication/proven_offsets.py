"""Find, by content, the last source record of each topic of a stopped flow that is on the target.

Connect stores how far it has flushed: a task that was cancelled has copied more, and would copy those records a second
time. The topics that are not to be copied again must therefore go on behind their proven last record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kafka_dr.actions.re_replication.scope import ChosenTopics, planned_topics
from kafka_dr.actions.scope.flow_scope import scope_now
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.re_replication.last_copy import Tails, last_copied
from kafka_dr.hooks.brokers.record import OffsetSpan, RecordDigest, digest_of
from kafka_dr.procedure.run import Run

#: How many of the target's last records are compared with the source.
_TAIL_RECORDS = 20
_READ_SECONDS = 600.0
Ends = dict[TopicPartition, int]


@dataclass(frozen=True)
class StoppedFlow:
    """What was read of a stopped flow.

    Attributes:
        ends: target partition -> log end, of all topics of the flow.
        stored: source partition -> offset that Connect stores.
        proven: source partition of other topics -> last offset whose copy is on the target.
        not_proven: source partitions of other topics whose last copy was not found on the source.
    """

    ends: Ends
    stored: Ends
    proven: Ends
    not_proven: tuple[TopicPartition, ...]


def stored_offsets(procedure: Run) -> Ends:
    """Return the offsets that Connect stores for the flow, by source partition; without those that are null."""
    flow = procedure.flow
    stored = procedure.mirror_maker(flow).offsets().of(flow.source)
    return {tp: last for tp, last in stored.items() if last is not None}


def prove_other_topics(procedure: Run, stable_ends: Callable[[list[TopicPartition]], Ends]) -> StoppedFlow:
    """Return ends, offsets and proven last records of a flow that was stopped.

    Args:
        stable_ends: waits until these log ends of the target stand still, and returns them.
    """
    whole = ChosenTopics(procedure, scope_now(procedure, procedure.systems.source.topics()))
    ends = stable_ends(sorted(whole.existing.values()))
    stored, chosen = stored_offsets(procedure), planned_topics(procedure).names
    others = {tp: remote for tp, remote in whole.existing.items() if tp.topic not in chosen and ends[remote] > 0}
    tails = _tails(whole, others, stored)
    found = {tp: last_copied(tails[tp]) for tp in others if tails[tp].copies}
    return StoppedFlow(
        ends,
        stored,
        {tp: last for tp, last in found.items() if last is not None},
        tuple(tp for tp, last in found.items() if last is None),
    )


def _tails(
    whole: ChosenTopics, others: Mapping[TopicPartition, TopicPartition], stored: Ends
) -> dict[TopicPartition, Tails]:
    """Return, by source partition, the target's last records and the source records from the stored offset on."""
    procedure = whole.procedure
    copies = procedure.systems.reader(procedure.request.target).last_records(
        others.values(), take=digest_of, n=_TAIL_RECORDS
    )
    reader = procedure.systems.reader(procedure.request.source, whole.isolation)
    spans = {
        tp: OffsetSpan(max(span.start, stored.get(tp, 0) - _TAIL_RECORDS), span.end)
        for tp, span in reader.spans(list(others)).items()
    }
    originals: dict[TopicPartition, list[RecordDigest]] = {tp: [] for tp in others}
    for record in reader.scan(spans, _READ_SECONDS, take=digest_of):
        originals[record.topic_partition].append(record)
    return {
        tp: Tails(
            stored.get(tp),
            tuple(record.fingerprint(whole.with_timestamps[tp.topic]) for record in copies[remote].records),
            tuple((r.offset, r.fingerprint(whole.with_timestamps[tp.topic])) for r in originals[tp]),
        )
        for tp, remote in others.items()
    }
