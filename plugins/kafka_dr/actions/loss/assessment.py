"""What is lost with the source: the inventory, and the plan that a second person approves."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from kafka_dr.actions.concurrently import run_concurrently
from kafka_dr.actions.loss.last_known_state import LastKnown, what_is_known, with_movement
from kafka_dr.actions.loss.takeover import (
    ProvenFacts,
    epoch_milliseconds,
    still_proven,
    what_was_proven,
    with_what_was_proven,
)
from kafka_dr.actions.offsets.early_translation import write_ahead
from kafka_dr.actions.offsets.log_bounds import bounds_of
from kafka_dr.actions.offsets.translation_input import open_to_clients
from kafka_dr.actions.old_source.lost_source_fence import found_lost
from kafka_dr.actions.scope.flow_scope import copies_of_target, mirrored_of
from kafka_dr.actions.scope.position_frames import with_partition_column
from kafka_dr.actions.spark_jobs import contract_frame, write_frame
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.loss.loss_plan import SourceLastSeen
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import NotReady, SystemUnavailable
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.brokers.descriptions import TopicInfo
from kafka_dr.procedure.run import Run
from kafka_dr.recorder.history import PARTITION
from kafka_dr.vocabulary import Step

_ENDS_SECONDS, _NAMED = 10.0, 10
#: A source that freezes while Spark reads it is given up after so long, and a second more for so many records that may
#: have to be read.
_READ_SECONDS, _READ_A_SECOND = 30, 20_000


class SourceNow:
    """Where the source's logs begin and end now; empty where it cannot be read."""

    def __init__(
        self, starts: dict[TopicPartition, int], ends: dict[TopicPartition, int], stable: dict[TopicPartition, int]
    ) -> None:
        self.starts, self.ends, self.stable = starts, ends, stable

    @property
    def readable(self) -> bool:
        """Whether the source can be read."""
        return bool(self.ends)

    @classmethod
    def of(cls, source: KafkaCluster, partitions: list[TopicPartition]) -> SourceNow:
        """Ask a source that answers."""
        with run_concurrently() as start:
            starts = start(source.starts, partitions, timeout=_ENDS_SECONDS)
            stable = start(source.ends, partitions, "read_committed", timeout=_ENDS_SECONDS)
            ends = source.ends(partitions, timeout=_ENDS_SECONDS)
        return cls(starts.result(), ends, stable.result())


def known_now(procedure: Run) -> tuple[LastKnown, SourceNow, ProvenFacts]:
    """What is known, the source now if readable (a lost one is not asked), and what a continued run had proven."""
    known, source = what_is_known(procedure), SourceNow({}, {}, {})
    lost = found_lost(procedure)
    proven = still_proven(procedure, what_was_proven(procedure), last_ends(known), lost)
    known = with_what_was_proven(procedure, known, proven)
    if not lost:
        try:
            seen = as_on_source(procedure, known, procedure.systems.source.topics(timeout=_ENDS_SECONDS))
            source = SourceNow.of(procedure.systems.source, partitions_of(seen))
            known = seen if source.readable else known
        except SystemUnavailable as error:
            known = replace(
                known, missing=(*known.missing, f"the source was not found lost, and yet cannot be read: {error}")
            )
    refuse_without_topics(procedure, known)
    return with_what_the_target_lacks(procedure, without_other_logs(procedure, known)), source, proven


def as_on_source(procedure: Run, known: LastKnown, there: Mapping[str, TopicInfo]) -> LastKnown:
    """The flow's topics by a readable source: also those that never reached the target, and no deleted ones."""
    names = {
        topic: procedure.naming.remote(procedure.flow.source, topic) for topic in mirrored_of(procedure, there)
    } | {topic: name for topic, (name, _, _) in known.topics.items() if topic in there}
    return replace(
        known,
        topics={topic: (name, len(there[topic].partitions), there[topic].topic_id) for topic, name in names.items()},
        positions=known.positions[
            known.positions["topic"].isin({*names, *copies_of_target(procedure, there)})
        ].reset_index(drop=True),
        gone=tuple(sorted({*known.gone, *known.topics} - set(there))),
    )


def with_what_the_target_lacks(procedure: Run, known: LastKnown) -> LastKnown:
    """The same, with partitions that never reached the target named among what is missing."""
    remote = [TopicPartition(known.topics[tp.topic][0], tp.partition) for tp in partitions_of(known)]
    lacking = sorted(set(remote) - set(existing_partitions(procedure, remote)))
    note = f"{len(lacking)} partitions are not on the target: {first_few(lacking)}"
    return replace(known, missing=(*known.missing, note)) if lacking else known


def refuse_without_topics(procedure: Run, known: LastKnown) -> None:
    """Where nobody knows of any topic of the flow there is nothing to move clients to."""
    if not known.topics:
        raise NotReady(
            "Nobody knows which topics the flow mirrors",
            "; ".join(known.missing) or "no topic of it on the target",
            f"Name the source by its alias, look whether {procedure.request.target} has its topics, and start a new"
            " run.",
        )


def last_seen(procedure: Run, known: LastKnown, source: SourceNow) -> SourceLastSeen:
    """When the source was seen last, and by whom."""
    began = procedure.progress.began(Step.CONFIRM_SOURCE_LOST)
    return SourceLastSeen(
        recorder=procedure.topology.recorder is not None,
        recorded_at=known.recorded.source_at,
        heartbeat_at=known.heartbeat_at,
        read_at=int(time.time() * 1000) if source.readable else None,
        looked_for_at=None if began is None else int(began * 1000),
    )


def partitions_of(known: LastKnown) -> list[TopicPartition]:
    """All partitions of the flow's topics, by their names on the source."""
    return [TopicPartition(topic, p) for topic, (_, count, _) in sorted(known.topics.items()) for p in range(count)]


def last_ends(known: LastKnown) -> dict[TopicPartition, int]:
    """Where the source's logs were seen to end last."""
    seen = known.recorded.partitions
    return {
        TopicPartition(t, int(p)): int(end)
        for t, p, end in zip(seen["topic"], seen["partition"], seen["source_end"], strict=True)
    }


def write_inputs(
    procedure: Run, folder: Path, known: LastKnown, source: SourceNow, proven: ProvenFacts
) -> dict[str, Any]:
    """What assess_data_loss reads; answers what its job.json says."""
    bounds, positions = bounds_now(procedure, known, source, proven), with_movement(known)
    write_frame(folder, "bounds", bounds)
    write_frame(folder, "last_seen", last_seen_frame(known, source, proven))
    # Of what groups hold on copies of the target's own topics nothing can be lost.
    write_frame(folder, "positions", positions[positions["topic"].isin(known.topics)])
    # A pair of a copy that was made anew says nothing of the records below it.
    write_frame(folder, "syncs", known.syncs[~known.syncs["topic"].isin(known.recorded.anew)])
    write_frame(folder, "floors", contract_frame(known.recorded.floors, "source_end", "target_end", "sampled_at"))
    write_frame(folder, "stretches", contract_frame(known.recorded.stretches, "start", "end", "downstream"))
    if not source.readable:
        write_ahead(
            procedure,
            folder,
            positions,
            known.recorded.floors,
            known.syncs,
            known.recorded.pairs,
            bounds,
            known.recorded.flowed_back,
        )
    # A topic that was made since the cut-off may still be written to.
    final = bool(proven.cut_off) and source.ends.keys() <= proven.cut_off.keys()
    return {
        "isolation": procedure.flow.isolation,
        "source_readable": source.readable,
        "source_final": final,
        "deadline_seconds": reading_seconds(known, source),
    }


def reading_seconds(known: LastKnown, source: SourceNow) -> int:
    """How long one task of Spark may read: as much as what may be stranded on a source that can be read."""
    recorded = known.recorded.partitions[[*PARTITION, "replicated"]].dropna()
    kept = {TopicPartition(t, int(p)): int(n) for t, p, n in recorded.itertuples(index=False)} | known.replicated
    return _READ_SECONDS + sum(max(0, end - kept.get(tp, -1) - 1) for tp, end in source.ends.items()) // _READ_A_SECOND


def bounds_now(procedure: Run, known: LastKnown, source: SourceNow, proven: ProvenFacts) -> pd.DataFrame:
    """One row per source partition with the target's bounds now; the source's as read, recorded or proven."""
    remote = {tp: TopicPartition(known.topics[tp.topic][0], tp.partition) for tp in partitions_of(known)}
    target, there = procedure.systems.target, existing_partitions(procedure, remote.values())
    ends, names = target.ends(there), {tp.topic for tp in there}
    recorded_starts = {
        TopicPartition(t, int(p)): int(at)
        for t, p, at in known.recorded.partitions[[*PARTITION, "source_start"]].dropna().itertuples(index=False)
    }
    return bounds_of(
        remote,
        source_start=recorded_starts | source.starts,
        cut_off=proven.cut_off | source.ends,
        target_start=target.starts(there),
        boundary=ends,
        source_configs=None,
        target_configs=target.configs(sorted(names)),
        drained=proven.drained({tp: ends[at] for tp, at in remote.items() if at in ends}),
        other_writer=open_to_clients(procedure, names),
        recreated=recreated_since_sample(procedure, known),
    )


def recreated_since_sample(procedure: Run, known: LastKnown) -> set[str]:
    """Topics of which one side has another one by now than was recorded: what was recorded speaks of another log."""
    there = procedure.systems.target.topics(sorted({name for name, _, _ in known.topics.values()}))
    seen = known.recorded.partitions[["topic", "topic_id", "target_topic_id"]].drop_duplicates().itertuples(index=False)
    return {
        topic
        for topic, on_source, on_target in seen
        if topic in known.topics
        and (
            _differ(on_source, known.topics[topic][2])
            or _differ(on_target, getattr(there.get(known.topics[topic][0]), "topic_id", None))
        )
    }


def without_other_logs(procedure: Run, known: LastKnown) -> LastKnown:
    """Drop what was recorded of topics made anew since: nobody knows what of the new ones is on the target.

    Where the recorder saw the new one on the target, what it wrote down since speaks of that; but what Connect keeps
    does not.
    """
    anew = recreated_since_sample(procedure, known)
    doubtful = anew | copied_anew(known)
    if not doubtful:
        return known

    def left(rows: pd.DataFrame) -> pd.DataFrame:
        return rows[~rows["topic"].isin(anew)].reset_index(drop=True)

    kept = known.recorded
    partitions = kept.partitions.assign(
        replicated=kept.partitions["replicated"].mask(kept.partitions["topic"].isin(doubtful))
    )
    return replace(
        known,
        recorded=replace(kept, partitions=partitions, floors=left(kept.floors), pairs=left(kept.pairs)),
        syncs=left(known.syncs),
        replicated={tp: offset for tp, offset in known.replicated.items() if tp.topic not in doubtful},
        missing=(
            *known.missing,
            f"{len(doubtful)} topics were made anew since they were recorded: {first_few(sorted(doubtful))}",
        ),
    )


def copied_anew(known: LastKnown) -> set[str]:
    """Topics whose copy on the target was replaced while recorded: what the older copy held may be missing."""
    return {*known.recorded.anew} & {*known.topics}


def _differ(one: str | None, other: str | None) -> bool:
    return one is not None and other is not None and one != other


def existing_partitions(procedure: Run, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Those of the target's partitions that are there."""
    wanted = list(partitions)
    there = procedure.systems.target.topics(sorted({tp.topic for tp in wanted}))
    return [tp for tp in wanted if tp.topic in there and tp.partition in there[tp.topic].partitions]


def last_seen_frame(known: LastKnown, source: SourceNow, proven: ProvenFacts) -> pd.DataFrame:
    """One row per partition, sampled or not; a cut-off counts as the last sample of its partition."""
    frame = pd.DataFrame(partitions_of(known), columns=PARTITION).astype({"topic": object, "partition": "int32"})
    seen = known.recorded.partitions
    at = {
        name: {
            TopicPartition(t, int(p)): int(v) for t, p, v in seen[[*PARTITION, name]].dropna().itertuples(index=False)
        }
        for name in ("source_end", "replicated", "sampled_at")
    }
    # What Connect keeps now is never less than what it kept when it was sampled.
    fenced_at = dict.fromkeys(proven.cut_off, epoch_milliseconds(proven.fenced_at))
    columns: dict[str, Mapping[TopicPartition, int | None]] = {
        "source_end": at["source_end"] | proven.cut_off,
        "replicated": at["replicated"] | known.replicated,
        "sampled_at": at["sampled_at"] | fenced_at,
        "stable_end": source.stable,
    }
    for name, values in columns.items():
        frame = with_partition_column(frame, values, name)
    return frame
