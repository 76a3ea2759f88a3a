"""Drain MirrorMaker 2, and stop it."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from kafka_dr.actions.history.seeds import seeded_offsets
from kafka_dr.actions.scope.flow_scope import remote_partitions
from kafka_dr.actions.scope.internal_topics import offset_syncs_of
from kafka_dr.actions.scope.plan_scope import cut_off_of
from kafka_dr.actions.scope.topic_settings import timestamps_comparable
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.offsets.drained import Proof, TailView, proof_of, why_not
from kafka_dr.hooks.brokers.record import Tail
from kafka_dr.procedure.entries import ReadinessChecked
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
        self._begun = seeded_offsets(procedure)

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
