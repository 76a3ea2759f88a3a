"""Prove, of a flow that runs on, that the target has what groups need, and find log ends that belong together.

Used where clients that belong on the source stay there, so that neither log stands still.
"""

from __future__ import annotations

from kafka_dr.actions.replication.drain import Drain
from kafka_dr.actions.scope.flow_scope import remote_partitions
from kafka_dr.actions.scope.plan_scope import cut_off_of
from kafka_dr.actions.scope.topic_settings import timestamps_comparable
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.plain_text import first_few
from kafka_dr.domain.replication.joint_ends import GrowingView, JointEnds, joint_ends_of, why_no_joint_ends
from kafka_dr.hooks.brokers.record import OffsetSpan, digest_of
from kafka_dr.procedure.entries import ConsumersDrained, ReadinessChecked
from kafka_dr.procedure.progress import NotYet
from kafka_dr.procedure.run import Run

#: Most records per partition among which the target's last record is looked for.
_MOST_COMPARED = 50_000


def needed_offsets(procedure: Run) -> dict[TopicPartition, int]:
    """Return source partition -> offset below which the groups that move need every record on the target.

    It is the cut-off, or a group's position if the group has read on since.
    """
    needed = cut_off_of(procedure)
    positions = procedure.artifacts.load(procedure.progress.require(ConsumersDrained).positions)
    columns = ["topic", "partition", "position"]
    for topic, partition, position in positions[columns].itertuples(index=False, name=None):
        tp = TopicPartition(topic, int(partition))
        if tp in needed:
            needed[tp] = max(needed[tp], int(position))
    return needed


class RunningFlow:
    """Looks for the joint ends of every partition of the plan; those that were found stay true."""

    def __init__(self, procedure: Run) -> None:
        self._procedure = procedure
        self._needed = needed_offsets(procedure)
        self._remote = remote_partitions(procedure, self._needed)
        self._isolation = procedure.progress.require(ReadinessChecked).isolation
        self._source = procedure.systems.reader(procedure.request.source, self._isolation)
        self._target = procedure.systems.reader(procedure.request.target)
        self._with_timestamps = timestamps_comparable(procedure)
        self._found: dict[TopicPartition, JointEnds] = {}

    def look(self) -> dict[TopicPartition, JointEnds]:
        """Return source partition -> its joint ends, once every partition has them.

        Raises:
            NotYet: partitions lack joint ends; the error gives the reasons.
        """
        pending = {tp: needed for tp, needed in self._needed.items() if tp not in self._found}
        # Under read_committed an open transaction keeps MirrorMaker 2 from records that groups may have read.
        ends = self._ends(list(pending))
        readable = [tp for tp, needed in pending.items() if ends[tp] >= needed]
        reasons = [
            f"{tp}: readable to offset {ends[tp]}, needed is {needed}"
            for tp, needed in pending.items()
            if ends[tp] < needed
        ]
        grown = self._grown(readable)
        reasons += self._look_at_grown(list(grown))
        reasons += self._look_at_quiet([tp for tp in readable if tp not in grown])
        if reasons:
            raise NotYet(
                f"{len(self._needed) - len(self._found)} of {len(self._needed)} partitions are not proven to be on the"
                f" target: {first_few(reasons, separator='; ')}"
            )
        return self._found

    def _look_at_grown(self, partitions: list[TopicPartition]) -> list[str]:
        """Find joint ends of partitions to which clients go on writing; return why some have none."""
        if not partitions:
            return []
        # In the order of the attributes of GrowingView: what is read later may be newer, and never the other way round.
        flow = self._procedure.flow
        replicated = self._procedure.mirror_maker(flow).offsets().of(flow.source)
        tails = self._target.last_records([self._remote[tp] for tp in partitions], take=digest_of)
        reasons = []
        for tp, newest in self._grown(partitions).items():
            tail, dated = tails[self._remote[tp]], self._with_timestamps[tp.topic]
            last = None if tail.last is None else tail.last.fingerprint(dated)
            view = GrowingView(tp, replicated.get(tp), last, tail.end, newest)
            ends = joint_ends_of(view)
            if ends is None:
                reasons.append(why_no_joint_ends(view))
            else:
                self._found[tp] = ends
        return reasons

    def _look_at_quiet(self, partitions: list[TopicPartition]) -> list[str]:
        """Find joint ends of partitions without records from the needed offset on; return why some have none."""
        if not partitions:
            return []
        drain, reasons = Drain(self._procedure, {tp: self._needed[tp] for tp in partitions}), []
        try:
            drain.look()
        except NotYet as reason:
            reasons = [str(reason)]
        drained = list(drain.proofs)
        copies = [self._remote[tp] for tp in drained]
        ends = self._procedure.systems.target.ends(copies) if copies else {}
        # After the target's log ends: no record below them is then a copy of a record from the needed offset on.
        grown = self._grown(drained)
        self._found |= {tp: JointEnds(self._needed[tp], ends[self._remote[tp]]) for tp in drained if tp not in grown}
        return [*reasons, *(f"{tp}: clients write to it" for tp in grown)]

    def _grown(self, partitions: list[TopicPartition]) -> dict[TopicPartition, list[tuple[int, str]]]:
        """Return the partitions with source records from the needed offset on -> these records, the newest ones.

        A record is given as its offset and fingerprint.
        """
        spans = {
            tp: OffsetSpan(max(self._needed[tp], end - _MOST_COMPARED), end)
            for tp, end in self._ends(partitions).items()
            if end > self._needed[tp]
        }
        grown: dict[TopicPartition, list[tuple[int, str]]] = {}
        for row in self._source.scan(spans, take=digest_of):
            dated = self._with_timestamps[row.topic]
            grown.setdefault(row.topic_partition, []).append((row.offset, row.fingerprint(dated)))
        return grown

    def _ends(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Return up to which offset the source's partitions can be read at MirrorMaker 2's isolation level."""
        source = self._procedure.systems.source
        return source.ends(partitions, isolation=self._isolation) if partitions else {}
