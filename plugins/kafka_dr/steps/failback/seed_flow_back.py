"""Set the offsets at which the flow back, from the new primary to the returned cluster, starts."""

from __future__ import annotations

from typing import Any

from kafka_dr.actions.failback.resync_scope import flow_runs, refuse_lacking, refuse_unusable_flows
from kafka_dr.actions.failback.resync_start import (
    NONE_COPIED,
    SeedRecord,
    offsets_to_clear,
    refuse_other_offsets,
    seeds_since_failover,
    start_offsets,
)
from kafka_dr.actions.failback.stranded_decision import mode_of, require_decided
from kafka_dr.actions.scope.flow_scope import names_separate_directions
from kafka_dr.actions.scope.position_frames import partitions_frame
from kafka_dr.domain.failback.stranded import Mode
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import Refusal
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import FlowBackSeeded, OffsetsToSeed, Receipt, TopicsPrepared
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep


class SeedFlowBack(ProcedureStep):
    """Seed the flow back to start after the records that both clusters have, or at the start of recreated topics."""

    def act(self, procedure: Run, context: Any) -> FlowBackSeeded:
        """Write to Connect the start offsets that differ from Connect's, and read all back; seed no flow that runs."""
        require_decided(procedure)
        refuse_unusable_flows(procedure)
        prepared = procedure.artifacts.load(procedure.progress.require(TopicsPrepared).prepared)
        flow, seeds, ids = procedure.flow, seeds_since_failover(procedure), refuse_lacking(procedure, prepared["topic"])
        worker, name = procedure.systems.flow_connectors(flow), flow.connectors.by_kind["source"]
        if procedure.flow_runs_on or flow_runs(procedure, flow):
            return self._accept_running(procedure, seeds, ids)
        current = worker.offsets().of(flow.source)
        starts = start_offsets(procedure, seeds, current)
        wanted = {tp: None if last == NONE_COPIED else last for tp, last in starts.items()} | offsets_to_clear(
            procedure, current
        )
        changes = {tp: last for tp, last in wanted.items() if current.get(tp) != last}
        record_fact(procedure.authority, self.task_id, OffsetsToSeed(partitions=len(changes)))
        after = worker.change_offsets(changes, procedure.authority.hold)
        refuse_other_offsets(name, after.of(flow.source), wanted)
        return FlowBackSeeded(
            seeded=len(changes),
            unchanged=len(wanted) - len(changes),
            ran_before=seeds.ran,
            connector=name,
            other_aliases=sorted(after.aliases - {flow.source}),
            seeds=self._save_seeds(procedure, starts),
            topic_ids=ids,
        )

    def _accept_running(self, procedure: Run, seeds: SeedRecord, ids: dict[str, str]) -> FlowBackSeeded:
        """Return the outcome for a flow back that runs already, or always, and is therefore not seeded.

        Args:
            seeds: how the failover and later failback runs have seeded this flow.
            ids: topic of the returned cluster -> its topic id.

        Raises:
            Refusal: mode recreate; or no procedure started the flow, and both directions write to the same topics.
        """
        name, always = procedure.flow.connectors.by_kind["source"], procedure.flow_runs_on
        if mode_of(procedure) is Mode.RECREATE:
            raise Refusal(
                f"{name} runs, though prepare_topics had stopped this connector",
                "prepare_topics has recreated the topics that this connector fills",
                f"Find out which user or tool resumed {name}. Stop {name} in Connect, then start a new run with mode"
                f" recreate, which deletes and recreates the topics again, because which records {name} has copied is"
                " unknown.",
            )
        if not (seeds.ran or names_separate_directions(procedure)):
            raise Refusal(
                f"{name} already runs, and the journal does not show at which offsets {name} began",
                f"no procedure has started {name} since the failover: {name} was started outside Switchback",
                f"Stop {name} in Connect, then start a new run with mode recreate, because records that {name} has"
                " copied cannot be distinguished from older records. Mode recreate exports stranded records, then"
                f" deletes and recreates topics on {procedure.request.target}.",
            )
        return FlowBackSeeded(
            seeded=0,
            ran_before=True,
            connector=name,
            why_not=f"{name} {'always runs' if always else 'runs'}, and continues from its own offsets",
            seeds=self._save_seeds(procedure, {}),
            topic_ids=ids,
        )

    def _save_seeds(self, procedure: Run, starts: dict[TopicPartition, int]) -> Receipt:
        return procedure.artifacts.save("flow_back_seeds", partitions_frame(starts, "replicated"))
