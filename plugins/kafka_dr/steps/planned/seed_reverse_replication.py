"""Set the start offsets of the reverse flow while its connector is STOPPED."""

from __future__ import annotations

from typing import Any

from kafka_dr.actions.replication.reverse import ends_at_opening
from kafka_dr.actions.scope.position_frames import partitions_frame
from kafka_dr.errors import Refusal
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import OffsetsToSeed, ReverseFlowSeeded
from kafka_dr.procedure.run import Run
from kafka_dr.steps.rechecked import RecheckedStep


class SeedReverseReplication(RecheckedStep):
    """Set the STOPPED reverse flow's offsets to boundary - 1, because the flow shall copy from the boundary on."""

    def act(self, procedure: Run, context: Any) -> ReverseFlowSeeded:
        """Seed the reverse flow and read the offsets back.

        Nothing is seeded if the topology or the Connect worker has no reverse flow, or if it runs under default naming.
        A flow that always runs keeps its own offsets, also while somebody has stopped it: records of the target's own
        clients, below the boundary, may have no copy yet.
        """
        procedure.approvals.require_plan()
        flow = procedure.reverse_flow
        if flow is None:
            return ReverseFlowSeeded(seeded=0, why_not="the topology has no reverse flow")
        if procedure.takes_writes_on_both:
            return ReverseFlowSeeded(seeded=0, why_not="the reverse flow always runs, and goes on at its own offsets")
        worker = procedure.systems.flow_connectors(flow)
        existing = worker.existing()
        for name in worker.sources:
            if name not in existing:
                return ReverseFlowSeeded(seeded=0, why_not=f"{name} does not exist")
        for status in worker.not_stopped():
            if procedure.topology.naming.policy == "default":
                why = f"{status.name} runs and already replicates what clients write on {flow.source}"
                return ReverseFlowSeeded(seeded=0, why_not=why)
            raise Refusal(
                f"{status.name} is not STOPPED",
                f"flow {flow.source}->{flow.target}: {status.state} with {len(status.tasks)} tasks",
                f"Stop {status.name}, because two flows in opposite directions copy records in a circle. The procedure"
                " returns to the source by itself; clear return_to_source if that step failed. Then start a new run.",
            )
        seeds = {tp: end - 1 if end > 0 else None for tp, end in ends_at_opening(procedure).items()}
        record_fact(procedure.authority, self.task_id, OffsetsToSeed(partitions=len(seeds)))
        worker.change_offsets(seeds, procedure.authority.hold)
        seeds_frame = partitions_frame({tp: -1 if n is None else n for tp, n in seeds.items()}, "replicated")
        return ReverseFlowSeeded(
            seeded=len(seeds),
            connector=flow.connectors.by_kind["source"],
            seeds=procedure.artifacts.save("reverse_seeds", seeds_frame),
        )
