"""Log ends and proofs for the reverse flow: does it copy only records that clients wrote after open_target?"""

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
    """Log ends of clients' topics on the target before clients wrote there, by partition.

    Under identity naming these are the boundary; under prefixed naming the log ends of the topics without prefix.
    """
    procedure.progress.require(GroupsCommitted)
    names = set(topics_of(procedure))
    return {tp: end for tp, end in ends_left(procedure).items() if tp.topic in names}


def refuse_loop(procedure: Run) -> None:
    """Refuse to resume the flow source -> target unless the reverse flow is STOPPED, or prefixes prevent loops."""
    flow = procedure.reverse_flow
    if flow is None or procedure.topology.naming.policy == "default":
        return
    # The reverse flow's worker runs beside the source and may have died with it.
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
            f"Stop {flow.connectors.source}: two flows in opposite directions copy records in a circle. Then clear"
            " return_to_source if that step failed, or start a new run.",
        )


def mirrored_ends(procedure: Run, copies: list[TopicPartition]) -> dict[TopicPartition, int]:
    """Source log ends, by partition, of all topics that the flow mirrors and of `copies`; 0 for missing partitions."""
    infos = procedure.systems.source.topics()
    mirrored = {TopicPartition(topic, p) for topic in mirrored_of(procedure, infos) for p in infos[topic].partitions}
    return existing_ends(procedure, sorted({*mirrored, *copies}))


def ends_are_noted(procedure: Run, step: str) -> bool:
    """Whether `step` has noted the log ends before the reverse flow first wrote to these logs."""
    return bool(procedure.progress.facts(EndsNoted, step))


def note_ends(procedure: Run, step: str, ends: dict[TopicPartition, int]) -> None:
    """Note in the journal the log ends before the reverse flow first runs: of all partitions that it may write to.

    A partition that is not in the note was created later.
    """
    receipt = procedure.artifacts.save("ends_before_flow", partitions_frame(ends, "offset"))
    record_fact(procedure.authority, step, EndsNoted(ends_before=receipt, all_noted=True))


def noted_ends(procedure: Run, step: str, copies: list[TopicPartition]) -> dict[TopicPartition, int]:
    """Log ends of `copies` as `step` first noted them; 0 for partitions that did not exist at that time."""
    receipt = procedure.progress.facts(EndsNoted, step)[0].ends_before
    ends = frame_partitions(procedure.artifacts.load(receipt), "offset")
    return {copy: ends.get(copy, 0) for copy in copies}


def copy_of(procedure: Run, flow: Flow, tp: TopicPartition) -> TopicPartition:
    """Partition of the old primary to which the reverse flow `flow` copies the new primary's partition `tp`."""
    return TopicPartition(procedure.naming.remote(flow.source, tp.topic), tp.partition)


def existing_ends(procedure: Run, copies: list[TopicPartition]) -> dict[TopicPartition, int]:
    """Log ends of `copies` on the procedure's source; 0 for partitions that MirrorMaker 2 has not created yet."""
    topics = procedure.systems.source.topics({tp.topic for tp in copies})
    existing = [tp for tp in copies if tp.topic in topics and tp.partition in topics[tp.topic].partitions]
    return dict.fromkeys(copies, 0) | (procedure.systems.source.ends(existing) if existing else {})


class ReverseCopies:
    """Partitions that clients write to on the target (new primary), compared with their copies on the source.

    Args:
        flow: the reverse flow, target -> source.
        before: partition of the source -> log end before the reverse flow ran.
        since: partition of the target -> first offset to be copied; None: `ends_at_opening`. If given, first records
            may have been deleted or compacted after they were copied; these are not compared.
    """

    def __init__(
        self,
        procedure: Run,
        flow: Flow,
        before: dict[TopicPartition, int],
        since: dict[TopicPartition, int] | None = None,
    ) -> None:
        self._procedure, self._before = procedure, before
        self._since, self._may_be_cleaned = ends_at_opening(procedure) if since is None else since, since is not None
        self._copy = {tp: copy_of(procedure, flow, tp) for tp in self._since}
        config = procedure.mirror_maker(flow).config(flow.connectors.source)
        self._originals = procedure.systems.reader(procedure.request.target, isolation_of(config))
        self._copies = procedure.systems.reader(procedure.request.source)

    def flowing(self) -> int:
        """Count the partitions with new records, if the first new record of each is the first that was copied.

        Raises:
            NotYet: a partition's first new record has no copy yet.
            Contradiction: the first copy is another record, or clients wrote nothing that could be copied.
        """
        # The copies are read before the originals: what is already copied is certainly in the original.
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
        cleaned = self._cleaned_partitions(differing)
        wrong = [f"{tp} -> {self._copy[tp]}" for tp in differing if tp not in cleaned]
        if wrong:
            raise Contradiction(
                "The reverse flow copies records other than those that clients wrote after open_target",
                first_few(wrong),
                "The source connector of the reverse flow was stopped again. Check the connector's offsets in Connect"
                " before you resume the connector.",
            )
        waiting = [str(tp) for tp in firsts if self._copy[tp] not in first_copies]
        if waiting:
            raise NotYet(f"{len(waiting)} of {len(firsts)} written partitions have no copy yet: {first_few(waiting)}")
        return len(firsts)

    def _cleaned_partitions(self, partitions: list[TopicPartition]) -> set[TopicPartition]:
        """Those of these target partitions whose first new record may be deleted or compacted by now."""
        if not self._may_be_cleaned:
            return set()
        cluster = self._procedure.systems.target
        compacted, starts = compacted_in(cluster.configs({tp.topic for tp in partitions})), cluster.starts(partitions)
        return {tp for tp in partitions if starts[tp] > self._since[tp] or tp.topic in compacted}


def first_records(reader: RecordReader, spans: dict[TopicPartition, OffsetSpan]) -> dict[TopicPartition, str]:
    """Partition -> fingerprint of the first record in its span; spans without records are left out."""
    return {tp: records[0].fingerprint() for tp, records in reader.ranges(spans, limit=1).items() if records}
