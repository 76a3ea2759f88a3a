"""Prove that a flow that was resumed copies records: for each task and each added topic, the first ones.

A connector that is RUNNING may copy nothing. The first new records of each partition on the target are compared, one by
one, with the source records behind the last copied one: so it is also seen that no record was repeated or skipped. One
alone would not do: a task that was cancelled may have sent a record whose copy comes only after log ends were stable.
The flow then copies this record again, and it is the second that is not the expected one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafka_dr.actions.flow_change.changed_flow import changed_flow
from kafka_dr.actions.flow_change.copied_offsets import MirroredPartition, mirrored_partitions
from kafka_dr.actions.scope.position_frames import frame_partitions
from kafka_dr.actions.scope.topic_settings import compacted_in
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.mirror_maker.flow_filter import FlowFilter
from kafka_dr.domain.plain_text import count_of, first_few
from kafka_dr.domain.readiness.alike_connectors import isolation_of
from kafka_dr.errors import Contradiction, DeadlinePassed, NotReady
from kafka_dr.hooks.brokers.record import OffsetSpan, digest_of
from kafka_dr.procedure.entries import OffsetsCorrected, facts_of
from kafka_dr.procedure.progress import NotYet
from kafka_dr.procedure.run import Run

#: How long to wait for a first record on the source, if no task has a record to copy.
_IDLE_SECONDS = 10.0
#: How many new copies of each partition are compared at most.
_COMPARED = 20


@dataclass(frozen=True)
class FlowProgress:
    """What was seen of a flow that runs.

    Attributes:
        flowing: partitions whose first new copies were compared; `tasks`: tasks with a record to copy.
        idle_tasks: tasks without a record to copy.
        without_task: topics with a record to copy that no task mirrors.
        unit: `topic` where no Connect worker says which task copies a partition: then each topic counts as one.
    """

    flowing: int
    tasks: int
    idle_tasks: int
    without_task: tuple[str, ...] = ()
    unit: str = "task"

    def __str__(self) -> str:
        lacking = f"; no task mirrors {first_few(self.without_task)}" if self.without_task else ""
        if not self.tasks:
            return f"no record was written that {count_of(self.idle_tasks, self.unit)} had to copy{lacking}"
        idle = f"; {count_of(self.idle_tasks, self.unit)} had no record to copy" if self.idle_tasks else ""
        return (
            f"{count_of(self.tasks, self.unit)} copied records; the first new records of"
            f" {count_of(self.flowing, 'partition')} are those that were not copied before{idle}{lacking}"
        )


class FlowWatch:
    """Looks at a flow since its offsets were corrected.

    Args:
        corrected: how far each partition was copied, and the target's log ends, before the flow was resumed.
        step: the step that waits.
        running: connectors that must run.
        added: topics that the flow did not mirror before; they are to be mirrored, too.
    """

    def __init__(
        self,
        procedure: Run,
        corrected: OffsetsCorrected,
        step: str,
        running: tuple[str, ...],
        added: tuple[str, ...] = (),
    ) -> None:
        self._procedure, self._step, self._running, self._added = procedure, step, running, added
        # Without a Connect worker nothing says which task copies a partition.
        self._by_task = procedure.flow.connect is not None
        load = procedure.artifacts.load
        self._copied = frame_partitions(load(corrected.going_on), "offset")
        self._ends = frame_partitions(load(corrected.ends), "offset")
        self._compacted = compacted_in(procedure.systems.source.configs({tp.topic for tp in self._ends}))

    def look(self) -> FlowProgress:
        """Return what was seen, once every task that has a record to copy has copied one, and so for added topics.

        Raises:
            NotYet: a connector does not run yet or has no task, or a task has copied nothing.
            NotReady: a task has failed.
            Contradiction: a first new copy is not the first record that was to be copied.
        """
        worker = changed_flow(self._procedure)
        self._require_running()
        mirrors = worker.topic_filter()
        assigned = worker.assigned_partitions()
        if self._by_task:
            self._require_tasks(mirrors, assigned)
        partitions = {one.source: one for one in mirrored_partitions(self._procedure, mirrors)}
        # Copies are read before originals: each copy's original is then on the source.
        copies = self._first_records(self._procedure.request.target, partitions, of_copies=True)
        originals = self._first_records(self._procedure.request.source, partitions, of_copies=False)
        self._refuse_other_copies(partitions, copies, originals)
        shares = assigned if self._by_task else _by_topic(partitions)
        tasks = {task: [tp for tp in share if tp in originals] for task, share in shares.items()}
        self._require_copies(tasks, originals, copies)
        busy = sum(1 for pending in tasks.values() if pending)
        progress, seconds = self._procedure.progress, self._procedure.request.deadlines.verify_seconds
        if not busy and progress.now() < progress.clock(self._step) + min(_IDLE_SECONDS, seconds / 2):
            raise NotYet("no record was written that a task had to copy")
        mirrored = {tp.topic for share in shares.values() for tp in share}
        lacking = {tp.topic for tp in originals if tp in self._ends} - mirrored
        unit = "task" if self._by_task else "topic"
        return FlowProgress(len(copies), busy, len(tasks) - busy, tuple(sorted(lacking)), unit)

    def _require_tasks(self, mirrors: FlowFilter, assigned: Mapping[str, list[TopicPartition]]) -> None:
        """Raise NotYet if a connector with topics to mirror has no task, or if no task mirrors an added topic.

        A connector that cannot list topics in time is RUNNING without a task, and stays so for minutes.
        """
        topics = {tp.topic for tp in self._ends if mirrors.selects(tp.topic)}
        needing = mirrors.connectors_with(topics).intersection(self._running)
        idle = sorted(name for name in needing if not any(task.startswith(f"{name} task ") for task in assigned))
        if idle:
            raise NotYet(f"connectors have no task: {first_few(idle)}")
        mirrored = {tp.topic for share in assigned.values() for tp in share}
        lacking = [] if not needing else [topic for topic in self._added if topic not in mirrored]
        if lacking:
            raise NotYet(f"no task mirrors added topics: {first_few(lacking)}; MirrorMaker 2 may lack rights on them")

    def _require_copies(
        self,
        tasks: Mapping[str, list[TopicPartition]],
        originals: Mapping[TopicPartition, object],
        copies: Mapping[TopicPartition, object],
    ) -> None:
        """Raise NotYet if a task, or an added topic, has records to copy and none of them was copied."""
        waiting = [
            f"{name}: {first_few([str(tp) for tp in pending], 3)}"
            for name, pending in [*sorted(tasks.items()), *self._added_partitions(originals)]
            if pending and not any(tp in copies for tp in pending)
        ]
        if waiting:
            raise NotYet(f"tasks have copied no record: {first_few(waiting, 5, '; ')}")

    def _added_partitions(self, originals: Mapping[TopicPartition, object]) -> list[tuple[str, list[TopicPartition]]]:
        added = self._added if self._by_task else ()
        return [(f"added {topic}", [tp for tp in originals if tp.topic == topic]) for topic in added]

    def _require_running(self) -> None:
        worker = changed_flow(self._procedure)
        statuses = [worker.status(name) for name in self._running]
        failed = [str(status) for status in statuses if "FAILED" in (status.state, *status.tasks.values())]
        if failed:
            raise NotReady(
                "A task of the flow has failed",
                first_few(failed, 3, "; "),
                "Correct the cause that the task's trace names. The former configuration is set again by"
                " return_to_source.",
            )
        waiting = [str(status) for status in statuses if not status.running]
        if waiting:
            raise NotYet(first_few(waiting, 3, "; "))

    def _first_records(
        self, alias: str, partitions: Mapping[TopicPartition, MirroredPartition], of_copies: bool
    ) -> dict[TopicPartition, list[tuple[str, str]]]:
        """Return source partition -> fingerprints, without and with timestamp, of the first records that are new.

        On the source these are the records behind the last copied one, on the target the new copies.
        """
        spans = {}
        for tp, one in partitions.items():
            begin = self._ends.get(tp, 0) if of_copies else max(one.log.start, self._copied.get(tp, -1) + 1)
            end = one.copy_end if of_copies else one.log.end
            if begin < end:
                spans[one.copy if of_copies else tp] = OffsetSpan(begin, end)
        isolation = isolation_of(changed_flow(self._procedure).source_config())
        reader = self._procedure.systems.reader(alias, "read_uncommitted" if of_copies else isolation)
        sources = {one.copy: tp for tp, one in partitions.items()} if of_copies else {tp: tp for tp in partitions}
        firsts = reader.ranges(spans, limit=_COMPARED, take=digest_of)
        return {sources[tp]: [(one.plain, one.dated) for one in found] for tp, found in firsts.items() if found}

    def _refuse_other_copies(
        self,
        partitions: Mapping[TopicPartition, MirroredPartition],
        copies: Mapping[TopicPartition, list[tuple[str, str]]],
        originals: Mapping[TopicPartition, list[tuple[str, str]]],
    ) -> None:
        """Raise Contradiction for partitions whose new copies are not the records that were to be copied, in order.

        Nothing is said of a partition whose first record may have been deleted or compacted meanwhile.
        """
        other = [
            str(tp)
            for tp, found in copies.items()
            if tp in originals
            and tp.topic not in self._compacted
            and partitions[tp].log.start <= self._copied.get(tp, -1) + 1
            and _differ(found, originals[tp], with_timestamp=not partitions[tp].append_time)
        ]
        if other:
            raise Contradiction(
                "The flow did not go on behind the last copied record",
                first_few(other),
                "Records of these partitions may be repeated or missing on the target: compare both clusters with"
                " reconcile_clusters.",
            )


def _by_topic(partitions: Mapping[TopicPartition, MirroredPartition]) -> dict[str, list[TopicPartition]]:
    return {topic: [tp for tp in partitions if tp.topic == topic] for topic in sorted({tp.topic for tp in partitions})}


def _differ(copies: list[tuple[str, str]], originals: list[tuple[str, str]], with_timestamp: bool) -> bool:
    """Whether a copy is not the original in its place, as far as both lists go."""
    return any(
        copy[with_timestamp] != original[with_timestamp] for copy, original in zip(copies, originals, strict=False)
    )


def wait_for_progress(
    procedure: Run, corrected: OffsetsCorrected, step: str, running: tuple[str, ...], added: tuple[str, ...]
) -> FlowProgress:
    """Wait until every task, and every added topic, with a record to copy has copied one; at most `verify_seconds`."""
    watch = FlowWatch(procedure, corrected, step, running, added)
    seconds = procedure.request.deadlines.verify_seconds
    return procedure.progress.wait(step, "Records flowing with the new settings", watch.look, seconds)


def progress_after_return(procedure: Run, corrected: OffsetsCorrected, step: str, running: tuple[str, ...]) -> str:
    """Return whether records flow with the former settings, as a sentence; no error is raised if none do."""
    watch = FlowWatch(procedure, corrected, step, running)
    progress, seconds = procedure.progress, procedure.request.deadlines.verify_seconds
    # The wait is counted from the beginning of the try, in which connectors were stopped and offsets corrected before.
    before = max(0.0, _corrected_at(procedure, step) - progress.clock(step))
    try:
        return str(progress.wait(step, "Records flowing", watch.look, before + seconds))
    except (NotReady, Contradiction, DeadlinePassed) as error:
        return f"not shown: {error.reason}. Seen: {error.seen}"


def _corrected_at(procedure: Run, step: str) -> float:
    """Return when a step last corrected offsets, in seconds since 1970."""
    notes = procedure.journal.entries(procedure.id, step, OffsetsCorrected.kind)
    return max(entry.at.timestamp() for entry, _ in facts_of(notes, OffsetsCorrected))
