"""Drain MirrorMaker 2, and stop it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from kafka_dr.domain.offsets.drained import Proof, TailView, proof_of, why_not
from kafka_dr.domain.plain_text import first_few
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.hooks.brokers.records import Tail
from kafka_dr.actions.fencing.acl_fence import cut_off_of, partitions_of_plan, topics_of
from kafka_dr.actions.scope.internal_topics import offset_syncs_of
from kafka_dr.actions.readiness.observe import remote_partitions, side_by_side
from kafka_dr.actions.scope.position_frames import partitions_frame
from kafka_dr.steps.base import ProcedureStep
from kafka_dr.actions.recheck import ResumedStep, source_ends_are_cut_off
from kafka_dr.actions.failback.resync_scope import refuse_replaced, told_to_begin
from kafka_dr.procedure.authority import acting
from kafka_dr.procedure.entries import MirrorMakerStopped, ReadinessChecked, ZeroLagProven
from kafka_dr.procedure.progress import NotYet
from kafka_dr.procedure.run import Run

_COUNTED_AT_MOST = 200_000


class Drain:
    """Looks at both sides of every partition that is not proven to be drained yet."""

    def __init__(self, procedure: Run) -> None:
        self.procedure = procedure
        self.cut_off = cut_off_of(procedure)
        self.isolation = procedure.progress.require(ReadinessChecked).isolation
        self.remote = remote_partitions(procedure, self.cut_off)
        self.source = procedure.systems.reader(procedure.request.source, self.isolation)
        self.target = procedure.systems.reader(procedure.request.target)
        self.compare_timestamps = timestamps_comparable(procedure)
        self.proofs: dict[TopicPartition, Proof] = {}
        self._source_last: dict[TopicPartition, Tail] | None = None
        self._begun = told_to_begin(procedure)

    def look(self) -> dict[TopicPartition, Proof]:
        """All proofs, or NotYet with the partitions that lack one."""
        pending = [tp for tp in self.cut_off if tp not in self.proofs]
        views = self._views(pending)
        self.proofs |= {v.partition: proof for v in views if (proof := proof_of(v)) is not None}
        left = [v for v in views if v.partition not in self.proofs]
        left = [v for v in self._with_shared(left) if not self._take(v)]
        left = [v for v in self._counted(left) if not self._take(v)]
        if left:
            raise NotYet(
                f"{len(left)} of {len(self.cut_off)} partitions are not drained: "
                + "; ".join(why_not(v) for v in left[:5])
            )
        return self.proofs

    def _take(self, view: TailView) -> bool:
        proof = proof_of(view)
        if proof is not None:
            self.proofs[view.partition] = proof
        return proof is not None

    def _views(self, partitions: list[TopicPartition]) -> list[TailView]:
        flow = self.procedure.flow
        replicated = self.procedure.mirror_maker(flow).offsets(flow.connectors.source).of(flow.source)
        if self._source_last is None:
            self._source_last = self.source.last_records(self.cut_off)
        target_last = self.target.last_records(self.remote[tp] for tp in partitions)
        return [
            TailView(
                partition=tp,
                cut_off=self.cut_off[tp],
                source_last=self._print(self._source_last[tp], tp),
                target_last=(self._print(target_last[self.remote[tp]], tp) or (0, None))[1],
                replicated=replicated.get(tp),
            )
            for tp in partitions
        ]

    def _print(self, tail: Tail, tp: TopicPartition) -> tuple[int, str] | None:
        last = tail.last
        return None if last is None else (last.offset, last.fingerprint(self.compare_timestamps[tp.topic]))

    def _with_shared(self, views: list[TailView]) -> list[TailView]:
        """The same views, told whether nobody wrote since clients came to the source."""
        told = {
            v.partition: self._begun[v.partition]
            for v in views
            if v.partition in self._begun and v.source_last is not None
        }
        ends = self.procedure.systems.target.ends([self.remote[tp] for tp in told]) if told else {}
        shared = {
            v.partition
            for v in views
            if v.partition in told
            and v.source_last is not None
            and v.source_last[0] <= told[v.partition].replicated
            and ends[self.remote[v.partition]] >= told[v.partition].target_end
        }
        return [replace(v, shared=v.partition in shared) for v in views]

    def _counted(self, views: list[TailView]) -> list[TailView]:
        """The same views with the records since each partition's last offset sync read on both sides."""
        if not views:
            return []
        syncs = offset_syncs_of(self.procedure).groupby(["topic", "partition"]).last()
        return [self._count(v, syncs) for v in views]

    def _count(self, view: TailView, syncs: pd.DataFrame) -> TailView:
        tp = view.partition
        if tuple(tp) not in syncs.index or view.source_last is None:
            return view
        upstream, downstream = (int(syncs[column].loc[tuple(tp)]) for column in ("upstream", "downstream"))
        if view.cut_off - upstream > _COUNTED_AT_MOST:
            return view
        end = self.procedure.systems.target.ends([self.remote[tp]])[self.remote[tp]]
        keep = self.compare_timestamps[tp.topic]
        here = self.source.range(tp, upstream, view.cut_off)
        there = self.target.range(self.remote[tp], downstream, end)
        return replace(
            view, source_since=[r.fingerprint(keep) for r in here], target_since=[r.fingerprint(keep) for r in there]
        )


def timestamps_comparable(procedure: Run) -> dict[str, bool]:
    """By source topic: whether records keep their timestamps (the target topic does not stamp its own)."""
    topics = topics_of(procedure)
    names = {t: procedure.naming.remote(procedure.flow.source, t) for t in topics}
    stamped = stamped_in(procedure.systems.target.configs(list(names.values())))
    return {t: remote not in stamped for t, remote in names.items()}


def compacted_in(configs: Mapping[str, Mapping[str, str]]) -> set[str]:
    """Topics that the cleaner compacts, of those with these settings."""
    return {topic for topic, config in configs.items() if "compact" in config.get("cleanup.policy", "delete")}


def stamped_in(configs: Mapping[str, Mapping[str, str]]) -> set[str]:
    """Topics whose records get their time from the broker, so that a copy has another one."""
    return {topic for topic, config in configs.items() if stamps(config)}


def stamps(config: Mapping[str, str]) -> bool:
    """Whether a topic with these settings gives records the time at which it took them."""
    return config.get("message.timestamp.type", "CreateTime") != "CreateTime"


class WaitForZeroLag(ProcedureStep):
    """Wait until every partition is drained, proven by content on both sides."""

    expires = True

    def act(self, procedure: Run, context: Any) -> ZeroLagProven:
        """Look until no partition lacks a proof."""
        drain = Drain(procedure)
        proofs = procedure.progress.wait(
            self.task_id, "Zero lag", drain.look, procedure.request.deadlines.zero_lag_seconds
        )
        source_ends_are_cut_off(procedure)
        return ZeroLagProven(
            partitions=len(proofs),
            proofs={p.value: sum(1 for q in proofs.values() if q is p) for p in Proof},
        )


class StopMirrorMaker(ResumedStep):
    """Stop source and checkpoint connector (dedicated: the processes); the target's still ends are the boundary."""

    def act(self, procedure: Run, context: Any) -> MirrorMakerStopped:
        """STOPPED, no tasks, ends still for a window, and drained still."""
        procedure.approvals.require_plan()
        worker, connectors = procedure.mirror_maker(procedure.flow), procedure.flow.connectors
        names, seconds = (connectors.source, connectors.checkpoint), procedure.request.deadlines.stop_seconds

        def undo() -> None:
            # What a stop hook ended only a person starts again.
            for name in names if procedure.flow.connect else ():
                worker.resume(name, deadline=seconds, needs_tasks=False)

        with acting(procedure.authority, undo), side_by_side() as start:
            worker.stop(connectors.source, deadline=seconds)
            procedure.authority.hold()
            # Connect gives the checkpoint connector's busy tasks five seconds; what it writes moves no boundary.
            checkpoint = start(worker.stop, connectors.checkpoint, deadline=seconds)
            ends = still_target_ends(procedure, self.task_id)
            checkpoint.result()
        proofs = procedure.progress.wait(
            self.task_id,
            "Still drained after the stop",
            Drain(procedure).look,
            procedure.request.deadlines.zero_lag_seconds,
        )
        refuse_replaced(procedure)
        replicated = {
            tp: n for tp, n in worker.offsets(connectors.source).of(procedure.flow.source).items() if n is not None
        }
        return MirrorMakerStopped(
            stopped=names,
            partitions_drained=len(proofs),
            boundary=procedure.artifacts.save("boundary", partitions_frame(ends, "offset")),
            replicated=procedure.artifacts.save("replicated", partitions_frame(replicated, "offset")),
        )


def still_target_ends(
    procedure: Run, step: str, remote: Sequence[TopicPartition] | None = None
) -> dict[TopicPartition, int]:
    """Wait until the target's log ends stood still for a window: then they are the boundary.

    Args:
        remote: the mirrored partitions; by default all of the plan's.
    """
    watched = sorted(remote_partitions(procedure, partitions_of_plan(procedure)).values()) if remote is None else remote

    def still() -> dict[TopicPartition, int]:
        before = procedure.systems.target.ends(watched)
        time.sleep(procedure.request.deadlines.stable_seconds)
        after = procedure.systems.target.ends(watched)
        moving = [str(tp) for tp in watched if after[tp] != before[tp]]
        if moving:
            raise NotYet(f"something still writes to the target: {first_few(moving)}")
        return after

    return procedure.progress.wait(
        step, "Still log ends on the target", still, procedure.request.deadlines.stop_seconds
    )
