"""Prove that each partition is drained: the records before the cut-off are on the target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from kafka_dr.actions.history.seeds import seeded_offsets
from kafka_dr.actions.scope.flow_scope import remote_partitions
from kafka_dr.actions.scope.internal_topics import last_offset_syncs
from kafka_dr.actions.scope.plan_scope import cut_off_of
from kafka_dr.actions.scope.topic_settings import timestamps_comparable
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.mirror_maker.mirror_records import OffsetSync
from kafka_dr.domain.replication.drained import Proof, TailView, proof_of, why_not
from kafka_dr.hooks.brokers.record import OffsetSpan, RecordDigest, Tail, digest_of, record_of
from kafka_dr.hooks.brokers.record_reader import RecordReader
from kafka_dr.procedure.entries import ReadinessChecked
from kafka_dr.procedure.progress import NotYet
from kafka_dr.procedure.run import Run

_MOST_RECORDS_READ = 200_000


class Drain:
    """Proves that partitions are drained: compares the last records of each partition on source and target.

    Args:
        cut_off: source partition -> offset below which all records must be on the target; None: the cut-off.
    """

    def __init__(self, procedure: Run, cut_off: Mapping[TopicPartition, int] | None = None) -> None:
        self.procedure = procedure
        self.cut_off = cut_off_of(procedure) if cut_off is None else cut_off
        self.isolation = procedure.progress.require(ReadinessChecked).isolation
        self.remote = remote_partitions(procedure, self.cut_off)
        self.source = procedure.systems.reader(procedure.request.source, self.isolation)
        self.target = procedure.systems.reader(procedure.request.target)
        self.compare_timestamps = timestamps_comparable(procedure)
        self.proofs: dict[TopicPartition, Proof] = {}
        self._source_last: dict[TopicPartition, Tail[RecordDigest]] | None = None
        self._seeds = seeded_offsets(procedure)

    def look(self) -> dict[TopicPartition, Proof]:
        """Return source partition -> proof that the partition is drained, once every partition has a proof.

        Raises:
            NotYet: partitions lack a proof; the error gives the reasons.
        """
        pending = [tp for tp in self.cut_off if tp not in self.proofs]
        views = self._views(pending)
        self.proofs |= {view.partition: proof for view in views if (proof := proof_of(view)) is not None}
        unproven = [view for view in views if view.partition not in self.proofs]
        unproven = [view for view in self._with_shared(unproven) if not self._store_proof(view)]
        # Only the proof is kept of the records of a partition: thousands of partitions may have such records.
        unproven = [view for view in self._with_records_since_sync(unproven) if not self._store_proof(view)]
        if unproven:
            raise NotYet(
                f"{len(unproven)} of {len(self.cut_off)} partitions are not drained: "
                + "; ".join(why_not(view) for view in unproven[:5])
            )
        return self.proofs

    def _store_proof(self, view: TailView) -> bool:
        proof = proof_of(view)
        if proof is not None:
            self.proofs[view.partition] = proof
        return proof is not None

    def _views(self, partitions: list[TopicPartition]) -> list[TailView]:
        flow = self.procedure.flow
        replicated = self.procedure.mirror_maker(flow).offsets().of(flow.source)
        if self._source_last is None:
            self._source_last = self.source.last_records(self.cut_off, take=digest_of)
        target_last = self.target.last_records((self.remote[tp] for tp in partitions), take=digest_of)
        return [
            TailView(
                partition=tp,
                cut_off=self.cut_off[tp],
                source_last=self._fingerprint(self._source_last[tp], tp),
                target_last=(self._fingerprint(target_last[self.remote[tp]], tp) or (0, None))[1],
                replicated=replicated.get(tp),
            )
            for tp in partitions
        ]

    def _fingerprint(self, tail: Tail[RecordDigest], tp: TopicPartition) -> tuple[int, str] | None:
        last = tail.last
        return None if last is None else (last.offset, last.fingerprint(self.compare_timestamps[tp.topic]))

    def _with_shared(self, views: list[TailView]) -> list[TailView]:
        """Return the views with `shared` set.

        A partition is shared if clients have written no record to it since they came to the source. All its source
        records then came from the target, or lie below the start offset that an earlier procedure seeded.
        """
        seeds = {
            view.partition: self._seeds[view.partition]
            for view in views
            if view.partition in self._seeds and view.source_last is not None
        }
        ends = self.procedure.systems.target.ends([self.remote[tp] for tp in seeds]) if seeds else {}
        shared = {
            view.partition
            for view in views
            if view.partition in seeds
            and view.source_last is not None
            and view.source_last[0] <= seeds[view.partition].replicated
            and ends[self.remote[view.partition]] >= seeds[view.partition].target_end
        }
        return [replace(view, shared=view.partition in shared) for view in views]

    def _with_records_since_sync(self, views: list[TailView]) -> Iterator[TailView]:
        """Yield the views with fingerprints of the records from the last offset sync on, on source and target."""
        if not views:
            return
        syncs = last_offset_syncs(self.procedure)
        for view in views:
            yield self._read_since_sync(view, syncs)

    def _read_since_sync(self, view: TailView, syncs: Mapping[TopicPartition, OffsetSync]) -> TailView:
        tp, sync = view.partition, syncs.get(view.partition)
        if sync is None or view.source_last is None or view.cut_off - sync.upstream > _MOST_RECORDS_READ:
            return view
        end = self.procedure.systems.target.ends([self.remote[tp]])[self.remote[tp]]
        return replace(
            view,
            source_since=self._fingerprints(self.source, tp, tp, OffsetSpan(sync.upstream, view.cut_off)),
            target_since=self._fingerprints(self.target, tp, self.remote[tp], OffsetSpan(sync.downstream, end)),
        )

    def _fingerprints(
        self, reader: RecordReader, tp: TopicPartition, where: TopicPartition, span: OffsetSpan
    ) -> list[str]:
        with_timestamps = self.compare_timestamps[tp.topic]
        return list(reader.scan({where: span}, take=lambda message: record_of(message).fingerprint(with_timestamps)))
