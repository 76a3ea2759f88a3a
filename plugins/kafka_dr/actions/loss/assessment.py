"""Write the input of the Spark job that lists lost records: last known state, log bounds, proofs.

The *last known state* is what the flight recorder, Connect and the target have about a flow (`LastKnown`). *Log bounds*
are a partition's log start and log end. *Proofs* are those of a planned failover that this run continues
(`ProvenFacts`).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from kafka_dr.actions.loss.last_known_state import LastKnown, read_last_known_state, with_movement
from kafka_dr.actions.loss.recreated_topics import recreated_since_sample, without_other_logs
from kafka_dr.actions.loss.takeover import (
    ProvenFacts,
    epoch_milliseconds,
    read_proven_facts,
    recheck_proven_facts,
    with_proven_facts,
)
from kafka_dr.actions.offsets.early_translation import write_ahead
from kafka_dr.actions.offsets.log_bounds import bounds_of
from kafka_dr.actions.offsets.translation_input import open_to_clients
from kafka_dr.actions.old_source.lost_source_fence import is_source_lost
from kafka_dr.actions.scope.flow_scope import copies_of_target, mirrored_of
from kafka_dr.actions.scope.partition_leaders import require_leaders
from kafka_dr.actions.scope.position_frames import with_partition_column
from kafka_dr.actions.spark_jobs import contract_frame, write_frame
from kafka_dr.concurrently import run_concurrently
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.loss.loss_plan import SourceLastSeen
from kafka_dr.domain.plain_text import count_of, first_few
from kafka_dr.errors import NotReady, SystemUnavailable
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.brokers.descriptions import TopicInfo
from kafka_dr.procedure.run import Run
from kafka_dr.recorder.history import PARTITION
from kafka_dr.vocabulary import Step

_ENDS_SECONDS, _NAMED = 10.0, 10
#: Time limit of a Spark task's reading, because the source may stop answering: _READ_SECONDS, and one second more
#: per _READ_A_SECOND records that may have to be read.
_READ_SECONDS, _READ_A_SECOND = 30, 20_000


@dataclass(frozen=True)
class SourceNow:
    """The source's current log starts, log ends and last stable offsets, by partition; empty if it was not read.

    Attributes:
        leaderless: partitions without leader, which cannot be read: they are in none of the mappings.
    """

    starts: dict[TopicPartition, int] = field(default_factory=dict)
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    stable: dict[TopicPartition, int] = field(default_factory=dict)
    leaderless: frozenset[TopicPartition] = frozenset()

    @property
    def readable(self) -> bool:
        """Whether log ends of the source were read."""
        return bool(self.ends)

    @classmethod
    def of(cls, source: KafkaCluster, partitions: list[TopicPartition], topics: Mapping[str, TopicInfo]) -> SourceNow:
        """Read log starts, log ends and last stable offsets of these partitions from a source that answers.

        Args:
            topics: the source's topics, with the leaders of their partitions.
        """
        leaderless = frozenset(partitions).intersection(tp for info in topics.values() for tp in info.leaderless)
        partitions = [tp for tp in partitions if tp not in leaderless]
        with run_concurrently() as start:
            starts = start(source.starts, partitions, timeout=_ENDS_SECONDS)
            stable = start(source.ends, partitions, "read_committed", timeout=_ENDS_SECONDS)
            ends = source.ends(partitions, timeout=_ENDS_SECONDS)
        return cls(starts.result(), ends, stable.result(), leaderless)

    def ends_or(self, known: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return all log ends, with `known` ends of partitions without leader; `known` if the source was not read."""
        if not self.readable:
            return dict(known)
        return {tp: known[tp] for tp in self.leaderless if tp in known} | self.ends


def read_present_facts(procedure: Run) -> tuple[LastKnown, SourceNow, ProvenFacts]:
    """Return the last known state, the source's current log bounds, and the proofs of a continued run.

    The log bounds are empty if the source is lost or does not answer.

    Raises:
        NotReady: neither the last known state nor the source names a topic of the flow.
        KafkaUnavailable: partitions of the target have no leader.
    """
    last_known, source = read_last_known_state(procedure), SourceNow()
    lost = is_source_lost(procedure)
    proven = recheck_proven_facts(procedure, read_proven_facts(procedure), last_ends(last_known), lost)
    last_known = with_proven_facts(procedure, last_known, proven)
    if not lost:
        try:
            topics = procedure.systems.source.topics(timeout=_ENDS_SECONDS)
            on_source = as_on_source(procedure, last_known, topics)
            source = SourceNow.of(procedure.systems.source, partitions_of(on_source), topics)
            if source.readable:
                last_known = note_leaderless_partitions(procedure, on_source, source.leaderless)
        except SystemUnavailable as error:
            last_known = replace(
                last_known,
                missing=(
                    *last_known.missing,
                    f"the checks did not show that the source is lost, but the source could not be read: {error}",
                ),
            )
    refuse_without_topics(procedure, last_known)
    require_leaders(procedure.systems.target, {name for name, _, _ in last_known.topics.values()})
    return note_missing_target_partitions(procedure, without_other_logs(procedure, last_known)), source, proven


def as_on_source(procedure: Run, last_known: LastKnown, source_topics: Mapping[str, TopicInfo]) -> LastKnown:
    """Return the last known state with exactly the topics that the source has now, and positions on these topics.

    Added are topics that are not on the target yet; topics that the source no longer has are moved to `gone`.
    """
    names = {
        topic: procedure.naming.remote(procedure.flow.source, topic) for topic in mirrored_of(procedure, source_topics)
    } | {topic: name for topic, (name, _, _) in last_known.topics.items() if topic in source_topics}
    return replace(
        last_known,
        topics={
            topic: (name, len(source_topics[topic].partitions), source_topics[topic].topic_id)
            for topic, name in names.items()
        },
        positions=last_known.positions[
            last_known.positions["topic"].isin({*names, *copies_of_target(procedure, source_topics)})
        ].reset_index(drop=True),
        gone=tuple(sorted({*last_known.gone, *last_known.topics} - set(source_topics))),
    )


def note_leaderless_partitions(
    procedure: Run, last_known: LastKnown, leaderless: frozenset[TopicPartition]
) -> LastKnown:
    """Return the last known state, with a note in `missing` on source partitions without leader and their groups."""
    if not leaderless:
        return last_known
    positions = last_known.positions
    on_them = [
        TopicPartition(t, int(p)) in leaderless for t, p in zip(positions["topic"], positions["partition"], strict=True)
    ]
    groups = sorted(set(positions["group"][on_them]))
    note = (
        f"{count_of(len(leaderless), 'partition')} of {procedure.request.source} cannot be read, because no broker"
        f" leads them: {first_few(sorted(leaderless))}. Their loss is unknown beyond the recorder's last sample of"
        " them, and their records are not exported. Positions on them come from the recorder's samples alone, possibly"
        f" behind, never ahead: {f'groups {first_few(groups)}' if groups else 'no group has one'}"
    )
    return replace(last_known, missing=(*last_known.missing, note))


def note_missing_target_partitions(procedure: Run, last_known: LastKnown) -> LastKnown:
    """Return the last known state, with a note in `missing` if the target lacks partitions of the flow."""
    remote = [TopicPartition(last_known.topics[tp.topic][0], tp.partition) for tp in partitions_of(last_known)]
    lacking = sorted(set(remote) - set(existing_partitions(procedure, remote)))
    note = f"{len(lacking)} partitions are not on the target: {first_few(lacking)}"
    return replace(last_known, missing=(*last_known.missing, note)) if lacking else last_known


def refuse_without_topics(procedure: Run, last_known: LastKnown) -> None:
    """Refuse if the last known state has no topic of the flow, because clients would have no topics to move to."""
    if not last_known.topics:
        raise NotReady(
            "Which topics the flow mirrors is unknown",
            "; ".join(last_known.missing) or "the target has no topic of the flow",
            f"Check that source and target are not swapped: by the params clients leave {procedure.request.source}. If"
            f" the params are right, list the topics of {procedure.request.target}, which must have the flow's copies,"
            " and read in the recorder's log why no sample lists topics. Then start a new run.",
        )


def last_seen(procedure: Run, last_known: LastKnown, source: SourceNow) -> SourceLastSeen:
    """Return when the source last answered the flight recorder and this run, and its newest heartbeat's timestamp.

    The heartbeat is the newest that was mirrored to the target. Times are milliseconds since 1970.
    """
    began = procedure.progress.began(Step.CONFIRM_SOURCE_LOST)
    return SourceLastSeen(
        recorder=procedure.topology.recorder is not None,
        recorded_at=last_known.recorded.source_at,
        heartbeat_at=last_known.heartbeat_at,
        read_at=int(time.time() * 1000) if source.readable else None,
        looked_for_at=None if began is None else int(began * 1000),
    )


def partitions_of(last_known: LastKnown) -> list[TopicPartition]:
    """Return all source partitions of the flow's topics, by the last known state."""
    return [
        TopicPartition(topic, p) for topic, (_, count, _) in sorted(last_known.topics.items()) for p in range(count)
    ]


def last_ends(last_known: LastKnown) -> dict[TopicPartition, int]:
    """Return source partition -> log end in the flight recorder's last sample."""
    sampled = last_known.recorded.partitions
    return {
        TopicPartition(t, int(p)): int(end)
        for t, p, end in zip(sampled["topic"], sampled["partition"], sampled["source_end"], strict=True)
    }


def write_inputs(
    procedure: Run, folder: Path, last_known: LastKnown, source: SourceNow, proven: ProvenFacts
) -> dict[str, Any]:
    """Write the assessment job's input files to `folder`; return the content of job.json.

    If the source is not read, also write the input of the early translation, to a subfolder.
    """
    bounds, positions = bounds_now(procedure, last_known, source, proven), with_movement(last_known)
    write_frame(folder, "bounds", bounds)
    write_frame(folder, "last_seen", last_seen_frame(last_known, source, proven))
    # Left out are positions on prefixed copies of the target's own topics: the target has all their records.
    write_frame(folder, "positions", positions[positions["topic"].isin(last_known.topics)])
    # An offset sync of a recreated copy proves nothing about the records below its offsets.
    write_frame(folder, "syncs", last_known.syncs[~last_known.syncs["topic"].isin(last_known.recorded.recreated)])
    write_frame(folder, "floors", contract_frame(last_known.recorded.floors, "source_end", "target_end", "sampled_at"))
    write_frame(folder, "stretches", contract_frame(last_known.recorded.stretches, "start", "end", "downstream"))
    if not source.readable:
        write_ahead(
            procedure,
            folder,
            positions,
            last_known.recorded.floors,
            last_known.syncs,
            last_known.recorded.pairs,
            bounds,
            last_known.recorded.flowed_back,
            last_known.recorded.newest_missing,
        )
    # A topic that was created after the cut-off is not fenced: clients may still write to it.
    final = bool(proven.cut_off) and source.ends.keys() <= proven.cut_off.keys()
    return {
        "isolation": procedure.flow.isolation,
        "source_readable": source.readable,
        "source_final": final,
        "deadline_seconds": reading_seconds(last_known, source),
    }


def reading_seconds(last_known: LastKnown, source: SourceNow) -> int:
    """Return how many seconds one Spark task may spend on reading.

    The time grows with the number of source records above the last replicated offset that was recorded.
    """
    recorded = last_known.recorded.partitions[[*PARTITION, "replicated"]].dropna()
    replicated = {
        TopicPartition(t, int(p)): int(n) for t, p, n in recorded.itertuples(index=False)
    } | last_known.replicated
    return (
        _READ_SECONDS
        + sum(max(0, end - replicated.get(tp, -1) - 1) for tp, end in source.ends.items()) // _READ_A_SECOND
    )


def bounds_now(procedure: Run, last_known: LastKnown, source: SourceNow, proven: ProvenFacts) -> pd.DataFrame:
    """Return one row of log bounds per source partition, with the bounds of its target partition.

    Log bounds of the target are read now. Log bounds of the source are read now, or are the flight recorder's, or were
    proven by the continued run.
    """
    remote = {tp: TopicPartition(last_known.topics[tp.topic][0], tp.partition) for tp in partitions_of(last_known)}
    target, existing = procedure.systems.target, existing_partitions(procedure, remote.values())
    ends, names = target.ends(existing), {tp.topic for tp in existing}
    recorded_starts = {
        TopicPartition(t, int(p)): int(start)
        for t, p, start in last_known.recorded.partitions[[*PARTITION, "source_start"]].dropna().itertuples(index=False)
    }
    return bounds_of(
        remote,
        source_start=recorded_starts | source.starts,
        cut_off=proven.cut_off | source.ends,
        target_start=target.starts(existing),
        boundary=ends,
        source_configs=None,
        target_configs=target.configs(sorted(names)),
        drained=proven.drained({tp: ends[target_tp] for tp, target_tp in remote.items() if target_tp in ends}),
        other_writer=open_to_clients(procedure, names),
        recreated=recreated_since_sample(procedure, last_known),
    )


def existing_partitions(procedure: Run, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Return the given target partitions that exist on the target."""
    wanted = list(partitions)
    topics = procedure.systems.target.topics(sorted({tp.topic for tp in wanted}))
    return [tp for tp in wanted if tp.topic in topics and tp.partition in topics[tp.topic].partitions]


def last_seen_frame(last_known: LastKnown, source: SourceNow, proven: ProvenFacts) -> pd.DataFrame:
    """Return one row per source partition with its last recorded offsets; unknown values are null.

    Columns besides topic and partition: `source_end` (log end in the flight recorder's last sample, or the cut-off of a
    continued run); `sampled_at` (time of that log end, in milliseconds since 1970); `replicated` (last replicated
    offset); `stable_end` (last stable offset, if the source is read now).
    """
    frame = pd.DataFrame(partitions_of(last_known), columns=PARTITION).astype({"topic": object, "partition": "int32"})
    sampled = last_known.recorded.partitions
    recorded = {
        name: {
            TopicPartition(t, int(p)): int(v)
            for t, p, v in sampled[[*PARTITION, name]].dropna().itertuples(index=False)
        }
        for name in ("source_end", "replicated", "sampled_at")
    }
    # Connect's stored offset, read now, is never below the sampled one.
    fenced_at = dict.fromkeys(proven.cut_off, epoch_milliseconds(proven.fenced_at))
    columns: dict[str, Mapping[TopicPartition, int | None]] = {
        "source_end": recorded["source_end"] | proven.cut_off,
        "replicated": recorded["replicated"] | last_known.replicated,
        "sampled_at": recorded["sampled_at"] | fenced_at,
        "stable_end": source.stable,
    }
    for name, values in columns.items():
        frame = with_partition_column(frame, values, name)
    return frame
