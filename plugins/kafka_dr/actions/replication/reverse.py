"""Prove that a flow from target to source copies only records that clients wrote after they came to the target.

A failover passes its own run, and the flow is its reverse flow. A failback passes its reversed run, and the flow is
the flow back: the *target* in this module is then the new primary, and the *source* the returned cluster. A *copy* is
the source partition to which the flow copies a target partition.
"""

from __future__ import annotations

from kafka_dr.actions.scope.flow_scope import mirrored_of
from kafka_dr.actions.scope.plan_scope import ends_left, topics_of
from kafka_dr.actions.scope.position_frames import frame_partitions, partitions_frame
from kafka_dr.actions.scope.topic_settings import compacted_in
from kafka_dr.config.topology import Flow
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.plain_text import first_few
from kafka_dr.domain.readiness.alike_connectors import isolation_of
from kafka_dr.errors import Contradiction, Refusal
from kafka_dr.hooks.brokers.record import OffsetSpan, digest_of
from kafka_dr.hooks.brokers.record_reader import RecordReader
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import EndsNoted, GroupsCommitted
from kafka_dr.procedure.progress import NotYet
from kafka_dr.procedure.run import Run

_LOST_WORKER_SECONDS = 5.0


def ends_at_opening(procedure: Run) -> dict[TopicPartition, int]:
    """Return target partition of clients' topics -> log end before clients wrote on the target.

    Under identity naming these log ends are the boundary; under prefixed naming they are the log ends of the topics
    without prefix.
    """
    procedure.progress.require(GroupsCommitted)
    names = set(topics_of(procedure))
    return {tp: end for tp, end in ends_left(procedure).items() if tp.topic in names}


def refuse_loop(procedure: Run) -> None:
    """Refuse to resume the flow source -> target while the reverse flow runs, because records would loop.

    With the naming policy `default`, prefixes prevent loops, and nothing is checked.
    """
    flow = procedure.reverse_flow
    if flow is None or procedure.topology.naming.policy == "default":
        return
    # The reverse flow's worker runs beside the source, and may not answer if the source does not.
    limits = {"timeout": _LOST_WORKER_SECONDS} if procedure.progress.without_source else {}
    for status in procedure.systems.flow_connectors(flow).not_stopped(**limits):
        raise Refusal(
            f"{status.name} is not STOPPED",
            f"flow {flow.source}->{flow.target}: {status}",
            f"The flow {flow.target}->{flow.source} was not resumed, because two flows in opposite directions copy"
            f" records in a circle. Stop {' and '.join(flow.connectors.source)} in Connect. Then clear return_to_source"
            " if that step failed; otherwise start a new run.",
        )


def mirrored_ends(procedure: Run, copies: list[TopicPartition]) -> dict[TopicPartition, int]:
    """Return source partition -> log end, of all topics that the flow mirrors and of `copies`.

    0 for partitions of `copies` that the source does not have.
    """
    infos = procedure.systems.source.topics()
    mirrored = {TopicPartition(topic, p) for topic in mirrored_of(procedure, infos) for p in infos[topic].partitions}
    return existing_ends(procedure, sorted({*mirrored, *copies}))


def ends_are_noted(procedure: Run, step: str) -> bool:
    """Whether `step` has recorded in the journal the source's log ends before the reverse flow first ran."""
    return bool(procedure.progress.facts(EndsNoted, step))


def note_ends(procedure: Run, step: str, ends: dict[TopicPartition, int]) -> None:
    """Record in the journal the source's log ends before the reverse flow first runs.

    A partition that `ends` does not list was created later.

    Args:
        ends: source partition -> log end, of all partitions that the reverse flow may write to.
    """
    receipt = procedure.artifacts.save("ends_before_flow", partitions_frame(ends, "offset"))
    record_fact(procedure.authority, step, EndsNoted(ends_before=receipt, all_noted=True))


def noted_ends(procedure: Run, step: str, copies: list[TopicPartition]) -> dict[TopicPartition, int]:
    """Return copy -> log end that `step` first recorded; 0 for source partitions that did not exist at that time."""
    receipt = procedure.progress.facts(EndsNoted, step)[0].ends_before
    ends = frame_partitions(procedure.artifacts.load(receipt), "offset")
    return {copy: ends.get(copy, 0) for copy in copies}


def copy_of(procedure: Run, flow: Flow, tp: TopicPartition) -> TopicPartition:
    """Return the source partition to which the reverse flow `flow` copies the target partition `tp`."""
    return TopicPartition(procedure.naming.remote(flow.source, tp.topic), tp.partition)


def existing_ends(procedure: Run, copies: list[TopicPartition]) -> dict[TopicPartition, int]:
    """Return copy -> log end on the procedure's source; 0 for partitions that MirrorMaker 2 has not created yet."""
    topics = procedure.systems.source.topics({tp.topic for tp in copies})
    existing = [tp for tp in copies if tp.topic in topics and tp.partition in topics[tp.topic].partitions]
    return dict.fromkeys(copies, 0) | (procedure.systems.source.ends(existing) if existing else {})


class ReverseCopies:
    """Compares the first new record of each target partition with the first record that the reverse flow copied.

    Args:
        flow: the reverse flow, target -> source.
        before: source partition -> log end before the reverse flow ran.
        since: target partition -> first offset to be copied; None: the log ends before clients wrote on the target. If
            `since` is given, a partition whose first new record may have been deleted or compacted is not compared.
    """

    def __init__(
        self,
        procedure: Run,
        flow: Flow,
        before: dict[TopicPartition, int],
        since: dict[TopicPartition, int] | None = None,
    ) -> None:
        self._procedure, self._flow, self._before = procedure, flow, before
        self._since, self._may_be_cleaned = ends_at_opening(procedure) if since is None else since, since is not None
        self._copy = {tp: copy_of(procedure, flow, tp) for tp in self._since}
        config = procedure.mirror_maker(flow).source_config()
        self._originals = procedure.systems.reader(procedure.request.target, isolation_of(config))
        self._copies = procedure.systems.reader(procedure.request.source)

    def flowing(self) -> int:
        """Return the number of target partitions with new records, once the first new record of each is copied.

        Raises:
            NotYet: a partition's first new record is not on the source yet.
            Contradiction: the first record copied to the source is another record than the first new record, or the
                target partition has no new record.
        """
        # The copies are read before the target partitions: each record that was already copied is then on the target.
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
            source, target = self._flow.source, self._flow.target
            name = " and ".join(self._flow.connectors.source)
            raise Contradiction(
                "The reverse flow copies records other than those that clients wrote after open_target",
                f"partitions of {source} -> copies on {target}: {first_few(wrong)}",
                f"The step had resumed {name}, and has now stopped it; clients still work on {source}. Do not resume"
                f" {name} before the cause is corrected. The file ends_before_flow-*.parquet in the run's evidence"
                f" folder has an offset for each named copy: read the first record from that offset on, on {target}. If"
                f" a client wrote this record, stop that client. If {name} wrote this record, {name} did not begin at"
                " the offset that this run had seeded (file *_seeds-*.parquet): find out which user or tool changed the"
                " connector's offsets in Connect. If start_flow_back failed, then start a new run. If"
                " start_reverse_replication failed, then clear that task, which compares the same records again.",
            )
        waiting = [str(tp) for tp in firsts if self._copy[tp] not in first_copies]
        if waiting:
            raise NotYet(f"{len(waiting)} of {len(firsts)} written partitions have no copy yet: {first_few(waiting)}")
        return len(firsts)

    def _cleaned_partitions(self, partitions: list[TopicPartition]) -> set[TopicPartition]:
        """Return the given target partitions whose first new record may be deleted or compacted by now."""
        if not self._may_be_cleaned:
            return set()
        cluster = self._procedure.systems.target
        compacted, starts = compacted_in(cluster.configs({tp.topic for tp in partitions})), cluster.starts(partitions)
        return {tp for tp in partitions if starts[tp] > self._since[tp] or tp.topic in compacted}


def first_records(reader: RecordReader, spans: dict[TopicPartition, OffsetSpan]) -> dict[TopicPartition, str]:
    """Return partition -> fingerprint of the first record in its span; spans without records are left out."""
    firsts = reader.ranges(spans, limit=1, take=digest_of)
    return {tp: records[0].fingerprint() for tp, records in firsts.items() if records}
