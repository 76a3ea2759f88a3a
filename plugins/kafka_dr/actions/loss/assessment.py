"""What is lost with the source: the inventory, and the plan that a second person approves."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pandas as pd

from kafka_dr.domain.canonical_json import digest_of
from kafka_dr.domain.fencing.fence import FenceScope, client_principals, opening_entries
from kafka_dr.domain.loss.loss_plan import LastKnownGroup, LastSeen, LossPlan
from kafka_dr.domain.plain_text import first_few
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import NotReady, SystemUnavailable
from kafka_dr.hooks.brokers.cluster import KafkaCluster, TopicInfo
from kafka_dr.actions.offsets.log_bounds import bounds_of
from kafka_dr.actions.loss.takeover import (
    Proven,
    milliseconds,
    still_proven,
    told_of,
    what_was_proven,
    with_what_was_proven,
)
from kafka_dr.actions.old_source.lost_source_fence import fence_ahead, found_lost, mirrored_of
from kafka_dr.actions.loss.last_known_state import LastKnown, what_is_known, with_movement
from kafka_dr.actions.readiness.observe import copies_of_target, side_by_side, target_rules
from kafka_dr.actions.offsets.commit import open_to_clients
from kafka_dr.actions.scope.position_frames import partitions_frame, placed
from kafka_dr.steps.base import ProcedureStep
from kafka_dr.actions.spark_jobs import plain, run_spark_job, write_frame
from kafka_dr.actions.offsets.early_translation import made_ahead, write_ahead
from kafka_dr.procedure.entries import DataLossAssessed, SourceConfirmedLost
from kafka_dr.procedure.run import Run
from kafka_dr.recorder.history import PARTITION
from kafka_dr.vocabulary import Step

_ENDS_SECONDS, _NAMED = 10.0, 10
#: A source that freezes while Spark reads it is given up after so long, and a second more for so many records that may
#: have to be read.
_READ_SECONDS, _READ_A_SECOND = 30, 20_000
_INVENTORY = (
    "partitions",
    "losing",
    "unknown",
    "certain",
    "possible",
    "records",
    "bytes",
    "first_at",
    "last_at",
    "aborted",
    "undecided",
    "records_per_second",
    "groups_ahead",
    "positions_ahead",
)
_LOSS = ["topic", "partition", "from_offset", "certain_to", "possible_to", "written_since", "records", "evidence"]


class AssessDataLoss(ProcedureStep):
    """Assess the loss by what was recorded and what the target has; per record if the source can be read."""

    expires = True

    def act(self, procedure: Run, context: Any) -> DataLossAssessed:
        """Gather, let Spark assess, and write the plan: nothing is changed on either cluster."""
        with side_by_side() as start:
            gathered = start(known_now, procedure)
            made = run_spark_job(
                procedure,
                context,
                "assess_data_loss",
                lambda folder: write_inputs(procedure, folder, *gathered.result()),
                "Spark did not assess the loss",
            )
        known, source, proven = gathered.result()
        seen = last_seen(procedure, known, source)
        summary = json.loads((made / "summary.json").read_text(encoding="utf-8"))
        # Offsets that may be missing stay whole numbers: the plan says them, and its digest covers them.
        loss, ahead, rereads = (
            pd.read_parquet(made / f"{name}.parquet", dtype_backend="numpy_nullable")
            for name in ("loss", "ahead", "rereads")
        )
        bounds = pd.read_parquet(made.with_name(f"{made.name}.input") / "bounds.parquet")
        assessed = plan_of(procedure, known, summary, loss, ahead, seen, told_of(proven, int(bounds["drained"].sum())))
        translated = made_ahead(procedure, made)
        rows = procedure.artifacts.load(translated) if translated else None
        plan = with_rereads(assessed, summary["rereads"], rereads, rows).as_dict()
        cut_off, ends = proven.cut_off, source.ends or last_ends(known) | proven.cut_off
        save = procedure.artifacts.save
        return DataLossAssessed(
            plan=plan,
            plan_digest=digest_of(plan),
            inventory_digest=summary["digest"],
            loss=save("loss", loss),
            positions=save("source_positions", with_movement(known)),
            floors=save("floors", known.recorded.floors),
            syncs=save("offset_syncs", known.syncs),
            pairs=save("pairs", known.recorded.pairs),
            bounds=save("bounds", bounds),
            active_groups=sorted(known.active),
            source_ends=save("source_ends", partitions_frame(ends, "offset")),
            cut_off=save("cut_off", partitions_frame(cut_off, "offset")) if cut_off else None,
            earlier_translation=proven.missing,
            translated_ahead=translated,
            source_readable=source.readable,
            stranded=made.name if source.readable else None,
            last_sample_at=known.recorded.last_at,
            source_last_seen_at=known.recorded.source_at,
            missing=known.missing,
            copied_anew=sorted(copied_anew(known)),
            flowed_back=known.recorded.flowed_back,
            records_read=summary["records_read"],
        )


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
        with side_by_side() as start:
            starts = start(source.starts, partitions, timeout=_ENDS_SECONDS)
            stable = start(source.ends, partitions, "read_committed", timeout=_ENDS_SECONDS)
            ends = source.ends(partitions, timeout=_ENDS_SECONDS)
        return cls(starts.result(), ends, stable.result())


def known_now(procedure: Run) -> tuple[LastKnown, SourceNow, Proven]:
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
    lacking = sorted(set(remote) - set(existing(procedure, remote)))
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


def last_seen(procedure: Run, known: LastKnown, source: SourceNow) -> LastSeen:
    """When the source was seen last, and by whom."""
    began = procedure.progress.began(Step.CONFIRM_SOURCE_LOST)
    return LastSeen(
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


def write_inputs(procedure: Run, folder: Path, known: LastKnown, source: SourceNow, proven: Proven) -> dict[str, Any]:
    """What assess_data_loss reads; answers what its job.json says."""
    bounds, positions = bounds_now(procedure, known, source, proven), with_movement(known)
    write_frame(folder, "bounds", bounds)
    write_frame(folder, "last_seen", last_seen_frame(known, source, proven))
    # Of what groups hold on copies of the target's own topics nothing can be lost.
    write_frame(folder, "positions", positions[positions["topic"].isin(known.topics)])
    # A pair of a copy that was made anew says nothing of the records below it.
    write_frame(folder, "syncs", known.syncs[~known.syncs["topic"].isin(known.recorded.anew)])
    write_frame(folder, "floors", plain(known.recorded.floors, "source_end", "target_end", "sampled_at"))
    write_frame(folder, "stretches", plain(known.recorded.stretches, "start", "end", "downstream"))
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


def bounds_now(procedure: Run, known: LastKnown, source: SourceNow, proven: Proven) -> pd.DataFrame:
    """One row per source partition with the target's bounds now; the source's as read, recorded or proven."""
    remote = {tp: TopicPartition(known.topics[tp.topic][0], tp.partition) for tp in partitions_of(known)}
    target, there = procedure.systems.target, existing(procedure, remote.values())
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
        recreated=made_anew(procedure, known),
    )


def made_anew(procedure: Run, known: LastKnown) -> set[str]:
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
    anew = made_anew(procedure, known)
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


def existing(procedure: Run, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Those of the target's partitions that are there."""
    wanted = list(partitions)
    there = procedure.systems.target.topics(sorted({tp.topic for tp in wanted}))
    return [tp for tp in wanted if tp.topic in there and tp.partition in there[tp.topic].partitions]


def last_seen_frame(known: LastKnown, source: SourceNow, proven: Proven) -> pd.DataFrame:
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
    fenced_at = dict.fromkeys(proven.cut_off, milliseconds(proven.fenced_at))
    columns: dict[str, Mapping[TopicPartition, int | None]] = {
        "source_end": at["source_end"] | proven.cut_off,
        "replicated": at["replicated"] | known.replicated,
        "sampled_at": at["sampled_at"] | fenced_at,
        "stable_end": source.stable,
    }
    for name, values in columns.items():
        frame = placed(frame, values, name)
    return frame


def plan_of(
    procedure: Run,
    known: LastKnown,
    summary: dict[str, Any],
    loss: pd.DataFrame,
    ahead: pd.DataFrame,
    seen: LastSeen,
    continues: dict[str, Any] | None = None,
) -> LossPlan:
    """The plan: what is lost, who is concerned, and what will be opened."""
    confirmed = procedure.progress.require(SourceConfirmedLost)
    window = f"{confirmed.verdict.rounds} rounds in {confirmed.window_seconds:.0f} s"
    return LossPlan(
        procedure_id=procedure.id,
        dag_id=procedure.identity.dag_id,
        source=procedure.request.source,
        target=procedure.request.target,
        reason=procedure.request.reason,
        naming=procedure.topology.naming.policy,
        connectors={"source": procedure.flow.connectors.source, "checkpoint": procedure.flow.connectors.checkpoint},
        topics=tuple((topic, name, count, topic_id) for topic, (name, count, topic_id) in sorted(known.topics.items())),
        groups=groups_of(procedure, known, ahead),
        opening=tuple(
            str(entry) for entry in opening_without_source(procedure, known.topics, known.positions["group"].unique())
        ),
        deadlines=procedure.request.deadlines.model_dump(),
        confirmed={
            "state": confirmed.state,
            "window": window,
            "override": confirmed.override if confirmed.overridden else None,
            "fence": fence_ahead(procedure),
        },
        inventory={"digest": summary["digest"], **{name: summary[name] for name in _INVENTORY}},
        loss=tuple(json.loads(loss[_LOSS].to_json(orient="records"))),
        unproven=known.missing,
        continues=continues,
        gone=known.gone,
        seen=asdict(seen),
        cool_down=procedure.progress.cool_down,
    )


def with_rereads(
    plan: LossPlan, told: dict[str, Any], by_group: pd.DataFrame, translated: pd.DataFrame | None
) -> LossPlan:
    """The plan, with what groups may be given again as far as that is known before MirrorMaker 2 stands.

    Args:
        by_group: the most that each may be given wherever it is placed.
        translated: rows made with the assessment, None without; where the target takes no more, groups are placed as
            these say.
    """
    most = bounds_by_group(by_group)
    placed_already = {} if translated is None else bounds_by_group(translated[translated["target_position"].notna()])
    most |= {group: min(bound, most.get(group, bound)) for group, bound in placed_already.items()}
    groups = tuple(replace(group, rereads=most.get(group.group)) for group in plan.groups)
    return replace(plan, rereads=told | {"bound": max(most.values(), default=None)}, groups=groups)


def bounds_by_group(rows: pd.DataFrame) -> dict[str, int]:
    """The largest bound of each group none of whose rows lacks one."""
    largest = rows["bound"].groupby(rows["group"], sort=False).agg(lambda bounds: bounds.max(skipna=False))
    return {str(group): int(bound) for group, bound in largest.dropna().items()}


def groups_of(procedure: Run, known: LastKnown, ahead: pd.DataFrame) -> tuple[LastKnownGroup, ...]:
    """The groups that move, each as it was seen last."""
    beyond = ahead.groupby("group").size()
    return tuple(
        LastKnownGroup(
            group=str(group),
            partitions=len(rows),
            policy=procedure.topology.policy_of(str(group)),
            active=group in known.active,
            position_at=int(oldest) if (oldest := rows["position_at"].min()) else None,
            ahead=int(beyond.get(group, 0)),
        )
        for group, rows in known.positions.groupby("group")
    )


def opening_without_source(procedure: Run, topics: Iterable[str], groups: Iterable[str]) -> list[Any]:
    """DENY entries of the target whose removal lets clients in: those that hold the right there, but for the denial."""
    rules, exempt = target_rules(procedure), procedure.exempt(procedure.request.target)
    scopes = (FenceScope.writes(topics), FenceScope.group_reads(groups))
    return [
        entry for scope in scopes for entry in opening_entries(rules, scope, client_principals(rules, scope, exempt))
    ]
