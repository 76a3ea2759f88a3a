"""Start the flow back, from the new primary to the returned cluster."""

from __future__ import annotations

from functools import partial
from typing import Any

from kafka_dr.actions.failback.resync_scope import written_since
from kafka_dr.actions.failback.stranded_decision import mode_of, require_decided
from kafka_dr.actions.fencing.old_flow import let_flow_write
from kafka_dr.actions.replication.enabled_flow import disable_sources, enable_sources
from kafka_dr.actions.replication.reverse import (
    ReverseCopies,
    copy_of,
    ends_are_noted,
    mirrored_ends,
    note_ends,
    noted_ends,
    refuse_loop,
)
from kafka_dr.actions.scope.flow_scope import names_separate_directions
from kafka_dr.actions.scope.position_frames import frame_partitions
from kafka_dr.domain.failback.stranded import Mode
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import Contradiction, Refusal
from kafka_dr.procedure.authority import acting_under
from kafka_dr.procedure.entries import FlowBackSeeded, FlowStarted, StrandedRecordsFound
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep


class StartFlowBack(ProcedureStep):
    """Resume the flow back, and prove that it copies the records from its start offsets on, and no earlier record."""

    def act(self, procedure: Run, context: Any) -> FlowStarted:
        """Resume source and checkpoint connectors of the flow back, only if the opposite flow is STOPPED.

        The opposite flow is disabled before: a program that resumes it later resumes no task. Then compare the first
        copies with the new primary's records. They are not compared if the flow back ran before, or if each direction
        has topics of its own.
        """
        require_decided(procedure)
        let_flow_write(procedure, self.task_id, procedure.request.target)
        flow, seeded = procedure.flow, procedure.progress.require(FlowBackSeeded)
        worker, seconds = procedure.mirror_maker(flow), procedure.request.deadlines.stop_seconds
        copies = (
            None
            if seeded.ran_before or names_separate_directions(procedure)
            else self._prepare_copies(procedure, seeded)
        )
        refuse_loop(procedure)
        disabled = disable_sources(procedure, self.task_id, procedure.reverse_flow)
        enable_sources(procedure, self.task_id, flow)
        for name in worker.names:
            refuse_loop(procedure)
            with acting_under(procedure.authority, partial(worker.stop, name, deadline=seconds)):
                worker.resume(name, deadline=seconds, needs_tasks=False)
        if copies is None:
            note = "the flow back continues from its offsets in Connect, so its first copies are not compared"
            return FlowStarted(started=True, connectors=worker.names, disabled=disabled, note=note)
        try:
            flowing = procedure.progress.wait(
                self.task_id, "Records flowing back", copies.flowing, procedure.request.deadlines.verify_seconds
            )
        except Contradiction:
            worker.stop_sources(deadline=seconds)
            raise
        return FlowStarted(started=True, connectors=worker.names, disabled=disabled, partitions_flowing=flowing)

    def _prepare_copies(self, procedure: Run, seeded: FlowBackSeeded) -> ReverseCopies:
        """Prepare, before the flow back runs, the comparison of the new primary's records with their copies."""
        start_at = {
            tp: last + 1 for tp, last in frame_partitions(procedure.artifacts.load(seeded.seeds), "replicated").items()
        }
        starts = procedure.systems.source.starts(list(start_at))
        since = {tp: max(first, starts[tp]) for tp, first in start_at.items()}
        return ReverseCopies(procedure.reversed, procedure.flow, self._ends_before(procedure, list(start_at)), since)

    def _ends_before(self, procedure: Run, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Return partition of the returned cluster -> log end from before the flow back was first resumed.

        Raises:
            Refusal: records came to the returned cluster after the search for stranded records.
        """
        copies = [copy_of(procedure, procedure.flow, tp) for tp in partitions]
        if not ends_are_noted(procedure, self.task_id):
            ends = mirrored_ends(procedure.reversed, copies)
            self._refuse_written(procedure)
            note_ends(procedure, self.task_id, ends)
        return noted_ends(procedure, self.task_id, copies)

    def _refuse_written(self, procedure: Run) -> None:
        """Refuse records that came to the returned cluster after the search for stranded records.

        Such records would count as replicated records, although no person decided on these records.
        """
        if mode_of(procedure) is Mode.RECREATE:
            return
        search = procedure.progress.require(StrandedRecordsFound)
        ends = frame_partitions(procedure.artifacts.load(search.returned_ends), "offset")
        infos = procedure.systems.target.topics({tp.topic for tp in ends})
        written = written_since(
            procedure,
            {tp: end for tp, end in ends.items() if tp.topic in infos and tp.partition in infos[tp.topic].partitions},
        )
        if written:
            raise Refusal(
                "Records arrived on the returned cluster after find_stranded_records",
                f"on {procedure.request.target}: {first_few(written, separator='; ')}",
                "The flow back was not started. Find out which client wrote these records, and stop this client; ACLs"
                " do not refuse a super user. Then start a new run.",
            )
