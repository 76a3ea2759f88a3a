"""Turn MirrorMaker 2 round: seed and start the reverse flow, and prove that it copies only new records."""

from __future__ import annotations

from kafka_dr.actions.scope.flow_scope import mirrored_of
from kafka_dr.actions.scope.plan_scope import ends_left, topics_of
from kafka_dr.actions.scope.position_frames import frame_partitions, partitions_frame
from kafka_dr.actions.scope.topic_settings import compacted_in
from kafka_dr.config.topology import Flow
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.plain_text import first_few
from kafka_dr.domain.readiness.readiness import isolation_of
from kafka_dr.errors import Contradiction, Refusal
from kafka_dr.hooks.brokers.record import OffsetSpan
from kafka_dr.hooks.brokers.record_reader import RecordReader
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import EndsNoted, GroupsCommitted
from kafka_dr.procedure.progress import NotYet
from kafka_dr.procedure.run import Run

_LOST_WORKER_SECONDS = 5.0


def ends_at_opening(procedure: Run) -> dict[TopicPartition, int]:
    """Ends of clients' topics on the target: the boundary, or without identity naming the local topics' ends."""
    procedure.progress.require(GroupsCommitted)
    names = set(topics_of(procedure))
    return {tp: end for tp, end in ends_left(procedure).items() if tp.topic in names}


def refuse_loop(procedure: Run) -> None:
    """Refuse to resume the forward flow unless the reverse one is STOPPED without tasks, or names prevent loops."""
    flow = procedure.reverse_flow
    if flow is None or procedure.topology.naming.policy == "default":
        return
    # The worker stands beside the source, and may have died with it.
    worker, limits = (
        procedure.mirror_maker(flow),
        {"timeout": _LOST_WORKER_SECONDS} if procedure.progress.without_source else {},
    )
    if (
        flow.connectors.source in worker.connectors(**limits)
        and not (status := worker.status(flow.connectors.source, **limits)).stopped
    ):
        raise Refusal(
            f"{flow.connectors.source} is not STOPPED",
            str(status),
            "Stop it first: both directions at once copy records in a circle.",
        )


def mirrored_ends(procedure: Run, copies: list[TopicPartition]) -> dict[TopicPartition, int]:
    """Ends on the source of all that the procedure's flow mirrors, and of these copies; 0 of missing ones."""
    infos = procedure.systems.source.topics()
    mirrored = {TopicPartition(topic, p) for topic in mirrored_of(procedure, infos) for p in infos[topic].partitions}
    return existing_ends(procedure, sorted({*mirrored, *copies}))


def ends_are_noted(procedure: Run, step: str) -> bool:
    """Whether a step of the procedure has noted where logs ended before it resumed the flow that writes to them."""
    return bool(procedure.progress.facts(EndsNoted, step))


def note_ends(procedure: Run, step: str, ends: dict[TopicPartition, int]) -> None:
    """Note all logs' ends before the flow first resumes: a partition not among them was made afterwards."""
    receipt = procedure.artifacts.save("ends_before_flow", partitions_frame(ends, "offset"))
    record_fact(procedure.authority, step, EndsNoted(ends_before=receipt, all_noted=True))


def noted_ends(procedure: Run, step: str, copies: list[TopicPartition]) -> dict[TopicPartition, int]:
    """What a step noted first of the copies; 0 of those that were not there."""
    noted = procedure.progress.facts(EndsNoted, step)[0].ends_before
    ends = frame_partitions(procedure.artifacts.load(noted), "offset")
    return {copy: ends.get(copy, 0) for copy in copies}


def copy_of(procedure: Run, flow: Flow, tp: TopicPartition) -> TopicPartition:
    """Where the reverse flow copies a partition of the new primary to."""
    return TopicPartition(procedure.naming.remote(flow.source, tp.topic), tp.partition)


def existing_ends(procedure: Run, copies: list[TopicPartition]) -> dict[TopicPartition, int]:
    """Ends of copies on the old primary; 0 where MirrorMaker 2 has not made the topic yet."""
    topics = procedure.systems.source.topics({tp.topic for tp in copies})
    there = [tp for tp in copies if tp.topic in topics and tp.partition in topics[tp.topic].partitions]
    return dict.fromkeys(copies, 0) | (procedure.systems.source.ends(there) if there else {})


class ReverseCopies:
    """The partitions clients write to on the new primary, beside their copies on the old one.

    Args:
        before: where the copies ended before the flow was resumed.
        since: the first offset on the new primary that is to be copied, by partition; where it is left out, where its
            log ended at the opening. What was written long ago may be deleted or compacted away between the copying and
            the look: of such a partition only the copy counts.
    """

    def __init__(
        self,
        procedure: Run,
        flow: Flow,
        before: dict[TopicPartition, int],
        since: dict[TopicPartition, int] | None = None,
    ) -> None:
        self._procedure, self._before = procedure, before
        self._since, self._long_ago = ends_at_opening(procedure) if since is None else since, since is not None
        self._copy = {tp: copy_of(procedure, flow, tp) for tp in self._since}
        config = procedure.mirror_maker(flow).config(flow.connectors.source)
        self._originals = procedure.systems.reader(procedure.request.target, isolation_of(config))
        self._copies = procedure.systems.reader(procedure.request.source)

    def flowing(self) -> int:
        """Count partitions written to since the opening; each one's first new record must be its first copy.

        Raises:
            NotYet: a new record has no copy yet.
            Contradiction: a copy is not what clients wrote first, or something was copied where they wrote nothing.
        """
        # The copies first: what they have by now, the new primary has too.
        copied = existing_ends(self._procedure, list(self._copy.values()))
        first_copies = first_records(
            self._copies, {tp: OffsetSpan(start, copied[tp]) for tp, start in self._before.items()}
        )
        ends = self._procedure.systems.target.ends(list(self._since))
        firsts = first_records(self._originals, {tp: OffsetSpan(start, ends[tp]) for tp, start in self._since.items()})
        differing = [
            tp
            for tp in self._since
            if self._copy[tp] in first_copies and first_copies[self._copy[tp]] != firsts.get(tp)
        ]
        cleaned = self._cleaned(differing)
        wrong = [f"{tp} -> {self._copy[tp]}" for tp in differing if tp not in cleaned]
        if wrong:
            raise Contradiction(
                "The reverse flow copies other records than those written since the opening",
                first_few(wrong),
                "It was stopped again; look at its offsets before resuming it.",
            )
        waiting = [str(tp) for tp in firsts if self._copy[tp] not in first_copies]
        if waiting:
            raise NotYet(f"{len(waiting)} of {len(firsts)} written partitions have no copy yet: {first_few(waiting)}")
        return len(firsts)

    def _cleaned(self, partitions: list[TopicPartition]) -> set[TopicPartition]:
        """Those whose first record may be gone by now."""
        if not self._long_ago:
            return set()
        cluster = self._procedure.systems.target
        compacted, starts = compacted_in(cluster.configs({tp.topic for tp in partitions})), cluster.starts(partitions)
        return {tp for tp in partitions if starts[tp] > self._since[tp] or tp.topic in compacted}


def first_records(reader: RecordReader, spans: dict[TopicPartition, OffsetSpan]) -> dict[TopicPartition, str]:
    """Fingerprint of the first record of each span that has one."""
    return {tp: records[0].fingerprint() for tp, records in reader.ranges(spans, limit=1).items() if records}
