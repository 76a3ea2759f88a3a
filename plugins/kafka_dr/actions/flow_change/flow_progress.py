"""Prove that a flow that was resumed copies records: for each task, the first record that it has to copy.

A connector that is RUNNING may copy nothing. The first new record of each partition on the target is compared with the
first source record behind the last copied one: so it is also seen that no record was repeated or skipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafka_dr.actions.flow_change.copied_offsets import MirroredPartition, mirrored_partitions
from kafka_dr.actions.scope.position_frames import frame_partitions
from kafka_dr.actions.scope.topic_settings import compacted_in
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.plain_text import count_of, first_few
from kafka_dr.domain.readiness.alike_connectors import isolation_of
from kafka_dr.errors import Contradiction, DeadlinePassed, NotReady
from kafka_dr.hooks.brokers.record import OffsetSpan, digest_of
from kafka_dr.procedure.entries import OffsetsCorrected
from kafka_dr.procedure.progress import NotYet
from kafka_dr.procedure.run import Run

#: How long to wait for a first record on the source, if no task has a record to copy.
_IDLE_SECONDS = 10.0


@dataclass(frozen=True)
class FlowProgress:
    """What was seen of a flow that runs.

    Attributes:
        flowing: partitions whose first new copy was compared; `tasks`: tasks with a record to copy.
        idle_tasks: tasks without a record to copy.
    """

    flowing: int
    tasks: int
    idle_tasks: int

    def __str__(self) -> str:
        if not self.tasks:
            return f"no record was written that {count_of(self.idle_tasks, 'task')} had to copy"
        idle = f"; {count_of(self.idle_tasks, 'task')} had no record to copy" if self.idle_tasks else ""
        return (
            f"{count_of(self.tasks, 'task')} copied records; the first new record of"
            f" {count_of(self.flowing, 'partition')} is the first one that was not copied before{idle}"
        )


class FlowWatch:
    """Looks at a flow since its offsets were corrected.

    Args:
        corrected: how far each partition was copied, and the target's log ends, before the flow was resumed.
        step: the step that waits.
        running: connectors that must run.
    """

    def __init__(self, procedure: Run, corrected: OffsetsCorrected, step: str, running: tuple[str, ...]) -> None:
        self._procedure, self._step, self._running = procedure, step, running
        load = procedure.artifacts.load
        self._copied = frame_partitions(load(corrected.going_on), "offset")
        self._ends = frame_partitions(load(corrected.ends), "offset")
        self._compacted = compacted_in(procedure.systems.source.configs({tp.topic for tp in self._ends}))

    def look(self) -> FlowProgress:
        """Return what was seen, once every task that has a record to copy has copied one.

        Raises:
            NotYet: a connector does not run yet, or a task has copied nothing.
            NotReady: a task has failed.
            Contradiction: a first new copy is not the first record that was to be copied.
        """
        worker = self._procedure.mirror_maker(self._procedure.flow)
        self._require_running()
        partitions = {one.source: one for one in mirrored_partitions(self._procedure, worker.topic_filter())}
        # Copies are read before originals: each copy's original is then on the source.
        copies = self._first_records(self._procedure.request.target, partitions, of_copies=True)
        originals = self._first_records(self._procedure.request.source, partitions, of_copies=False)
        self._refuse_other_copies(partitions, copies, originals)
        tasks = {
            task: [tp for tp in assigned if tp in originals] for task, assigned in worker.assigned_partitions().items()
        }
        waiting = [
            f"{task}: {first_few([str(tp) for tp in pending], 3)}"
            for task, pending in sorted(tasks.items())
            if pending and not any(tp in copies for tp in pending)
        ]
        if waiting:
            raise NotYet(f"tasks have copied no record: {first_few(waiting, 5, '; ')}")
        busy = sum(1 for pending in tasks.values() if pending)
        progress, seconds = self._procedure.progress, self._procedure.request.deadlines.verify_seconds
        if not busy and progress.now() < progress.clock(self._step) + min(_IDLE_SECONDS, seconds / 2):
            raise NotYet("no record was written that a task had to copy")
        return FlowProgress(len(copies), busy, len(tasks) - busy)

    def _require_running(self) -> None:
        worker = self._procedure.mirror_maker(self._procedure.flow)
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
    ) -> dict[TopicPartition, tuple[str, str]]:
        """Return source partition -> fingerprints, without and with timestamp, of the first record that is new.

        On the source that is the first record behind the last copied one, on the target the first new copy.
        """
        spans = {}
        for tp, one in partitions.items():
            begin = self._ends.get(tp, 0) if of_copies else max(one.log.start, self._copied.get(tp, -1) + 1)
            end = one.copy_end if of_copies else one.log.end
            if begin < end:
                spans[one.copy if of_copies else tp] = OffsetSpan(begin, end)
        isolation = isolation_of(self._procedure.mirror_maker(self._procedure.flow).source_config())
        reader = self._procedure.systems.reader(alias, "read_uncommitted" if of_copies else isolation)
        sources = {one.copy: tp for tp, one in partitions.items()} if of_copies else {tp: tp for tp in partitions}
        firsts = reader.ranges(spans, limit=1, take=digest_of)
        return {sources[tp]: (found[0].plain, found[0].dated) for tp, found in firsts.items() if found}

    def _refuse_other_copies(
        self,
        partitions: Mapping[TopicPartition, MirroredPartition],
        copies: Mapping[TopicPartition, tuple[str, str]],
        originals: Mapping[TopicPartition, tuple[str, str]],
    ) -> None:
        """Raise Contradiction for partitions whose first new copy is another record than the first to be copied.

        Nothing is said of a partition whose first record may have been deleted or compacted meanwhile.
        """
        other = [
            str(tp)
            for tp, copy in copies.items()
            if (original := originals.get(tp)) is not None
            and tp.topic not in self._compacted
            and partitions[tp].log.start <= self._copied.get(tp, -1) + 1
            and copy[0 if partitions[tp].append_time else 1] != original[0 if partitions[tp].append_time else 1]
        ]
        if other:
            raise Contradiction(
                "The flow did not go on behind the last copied record",
                first_few(other),
                "Records of these partitions may be repeated or missing on the target: compare both clusters with"
                " reconcile_clusters.",
            )


def wait_for_progress(procedure: Run, corrected: OffsetsCorrected, step: str, running: tuple[str, ...]) -> FlowProgress:
    """Wait until every task with a record to copy has copied one; at most `verify_seconds`."""
    watch = FlowWatch(procedure, corrected, step, running)
    seconds = procedure.request.deadlines.verify_seconds
    return procedure.progress.wait(step, "Records flowing with the new settings", watch.look, seconds)


def progress_after_return(procedure: Run, corrected: OffsetsCorrected, step: str, running: tuple[str, ...]) -> str:
    """Return whether records flow with the former settings, as a sentence; no error is raised if none do."""
    watch = FlowWatch(procedure, corrected, step, running)
    try:
        return str(
            procedure.progress.wait(step, "Records flowing", watch.look, procedure.request.deadlines.verify_seconds)
        )
    except (NotReady, Contradiction, DeadlinePassed) as error:
        return f"not shown: {error.reason}. Seen: {error.seen}"
