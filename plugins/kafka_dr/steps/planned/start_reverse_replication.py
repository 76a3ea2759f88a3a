"""Start the reverse flow, from the target back to the old source, and prove that it copies new records only."""

from __future__ import annotations

from typing import Any

from kafka_dr.actions.fencing.old_flow import let_flow_write
from kafka_dr.actions.replication.enabled_flow import disable_sources, enable_sources
from kafka_dr.actions.replication.reverse import (
    ReverseCopies,
    copy_of,
    ends_are_noted,
    ends_at_opening,
    mirrored_ends,
    note_ends,
    noted_ends,
)
from kafka_dr.config.topology import Flow
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import Contradiction, NotReady, ReadBackFailed, Refusal, SystemUnavailable
from kafka_dr.procedure.entries import FlowStarted, ReverseFlowSeeded
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep


class StartReverseReplication(ProcedureStep):
    """Start the reverse flow, which replicates the target to the old source, if the run's params ask for this.

    Prove that the flow copies new records, and no record that the old source already had.
    """

    def act(self, procedure: Run, context: Any) -> FlowStarted:
        """Resume the reverse flow, only if the flow source->target is STOPPED; then compare copies and originals.

        The flow source->target is disabled before: a program that resumes it later resumes no task.
        They are compared only if seed_reverse_replication has seeded the reverse flow.
        """
        # Also without start of the flow: a person may resume it later.
        let_flow_write(procedure, self.task_id, procedure.request.source)
        flow = procedure.reverse_flow
        if flow is None:
            return FlowStarted(started=False)
        if not procedure.request.start_reverse_replication:
            return self._prepare_for_a_person(procedure, flow)
        self._refuse_loop(procedure)
        disabled = disable_sources(procedure, self.task_id, procedure.flow)
        # Somebody may have resumed the flow meanwhile.
        self._refuse_loop(procedure)
        seeded = procedure.progress.require(ReverseFlowSeeded).seeded
        copies = ReverseCopies(procedure, flow, self._ends_before(procedure, flow)) if seeded else None
        enable_sources(procedure, self.task_id, flow)
        worker = procedure.mirror_maker(flow)
        for name in worker.names:
            procedure.authority.hold()
            worker.resume(name, deadline=procedure.request.deadlines.stop_seconds, needs_tasks=False)
        if copies is None:
            note = "the reverse flow was not seeded: its first records were not compared"
            return FlowStarted(started=True, connectors=worker.names, disabled=disabled, note=note)
        try:
            flowing = procedure.progress.wait(
                self.task_id, "Records flowing back", copies.flowing, procedure.request.deadlines.verify_seconds
            )
        except Contradiction:
            worker.stop_sources(deadline=procedure.request.deadlines.stop_seconds)
            raise
        return FlowStarted(started=True, connectors=worker.names, disabled=disabled, partitions_flowing=flowing)

    def _prepare_for_a_person(self, procedure: Run, flow: Flow) -> FlowStarted:
        """Enable the reverse flow, which a person may resume later, and disable the other; failures are only noted."""
        try:
            disabled = disable_sources(procedure, self.task_id, procedure.flow)
            if flow.connect is not None and procedure.mirror_maker(flow).existing():
                enable_sources(procedure, self.task_id, flow)
        except (SystemUnavailable, ReadBackFailed, NotReady) as error:
            note = f"whether a person can resume the reverse flow is not known: {error}"
            return FlowStarted(started=False, note=note)
        return FlowStarted(started=False, disabled=disabled)

    def _refuse_loop(self, procedure: Run) -> None:
        """Refuse to start the reverse flow while a source connector of the forward flow is not STOPPED.

        Nothing is refused if the forward flow runs on, because clients that belong on the source stay there.
        """
        flow = procedure.flow
        if procedure.flow_runs_on:
            return
        for forward in procedure.mirror_maker(flow).not_stopped():
            raise Refusal(
                f"{forward.name} is not STOPPED",
                f"flow {flow.source}->{flow.target}: {forward.state} with {len(forward.tasks)} tasks",
                f"Clients work on {flow.target}, and the reverse flow is not started yet. Stop"
                f" {forward.name} in Connect, because two flows in opposite directions copy records in a circle. Then"
                " clear start_reverse_replication.",
            )

    def _ends_before(self, procedure: Run, flow: Flow) -> dict[TopicPartition, int]:
        """Return log ends on the old source from before the reverse flow was first resumed, by partition."""
        copies = [copy_of(procedure, flow, tp) for tp in ends_at_opening(procedure)]
        if not ends_are_noted(procedure, self.task_id):
            note_ends(procedure, self.task_id, mirrored_ends(procedure, copies))
        return noted_ends(procedure, self.task_id, copies)
