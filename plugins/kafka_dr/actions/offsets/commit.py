"""Translate positions with Spark, and commit them to idle groups on the target."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from kafka_dr.domain.fencing.fence import FenceScope, still_allowed
from kafka_dr.domain.loss.loss_plan import Grown, review_digest
from kafka_dr.domain.plain_text import first_few
from kafka_dr.domain.offsets.rereads import compare_with_mirror_maker
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import ApprovalMissing, Contradiction, ReadBackFailed, Refusal
from kafka_dr.hooks.brokers.group_requests import OK
from kafka_dr.hooks.brokers.cluster import Settings
from kafka_dr.actions.offsets.log_bounds import bounds_of
from kafka_dr.actions.offsets.prefixed_topics import with_copies
from kafka_dr.actions.fencing.acl_fence import active_groups, boundary_of, cut_off_of, excluded_groups, positions_frame
from kafka_dr.actions.scope.internal_topics import checkpoints_of, offset_syncs_of
from kafka_dr.actions.history.journal_lineage import tell_unknown, write_lineage
from kafka_dr.actions.loss_changes import loss_grown
from kafka_dr.actions.readiness.observe import remote_partitions, side_by_side, target_rules
from kafka_dr.actions.scope.position_frames import (
    COLUMNS,
    PLACE,
    TYPES,
    by_group,
    in_order,
    partitions_frame,
    positions_of,
    ranked,
)
from kafka_dr.actions.replication.drain import stamped_in
from kafka_dr.actions.spark_jobs import run_spark_job, write_frame
from kafka_dr.actions.recheck import ResumedStep
from kafka_dr.actions.failback.resync_scope import moved_clients, names_protect
from kafka_dr.procedure.authority import record
from kafka_dr.procedure.entries import (
    ConsumersDrained,
    GroupsCommitted,
    MirrorMakerStopped,
    MissingRange,
    OffsetsTranslated,
    PositionsToCommit,
    ReadinessChecked,
    Receipt,
    SnapshotTaken,
    TopicsToCreate,
)
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Step, TranslationClass

_EXACT = "exact"


class TranslateOffsets(ResumedStep):
    """Write the input, let Spark translate, check the result, and compare it with MirrorMaker 2's checkpoints."""

    def act(self, procedure: Run, context: Any) -> OffsetsTranslated:
        """One row per committed position, or a failure; never fewer."""
        positions = self.positions(procedure)
        with side_by_side() as start:
            checkpoints = start(checkpoints_of, procedure)
            rows, summary = self.translated(procedure, context, positions)
        check_complete(positions, rows)
        rows = compare_with_mirror_maker(rows, checkpoints.result())
        return OffsetsTranslated(
            digest=summary["digest"],
            made_by=summary.get("made_by", self.task_id),
            classes=summary["classes"],
            exact=int(rows[_EXACT].sum()),
            positions=len(rows),
            may_have_moved=int(positions["may_have_moved"].sum()) if "may_have_moved" in positions else 0,
            bound=_largest(rows.loc[rows["target_position"].notna(), "bound"]),
            mirror_maker_bound=_largest(rows["mirror_maker_rereads"].dropna()),
            mirror_maker_missing=int(rows["mirror_maker_position"].isna().sum()),
            rereads_by_group=rereads_by_group(rows),
            records_read=summary["records_read"],
            repeats=summary["repeats"],
            holes=[MissingRange(**found) for found in summary["holes"]],
            cut=[MissingRange(**found) for found in summary["cut"]],
            translation=procedure.artifacts.save("positions", rows),
        )

    def positions(self, procedure: Run) -> pd.DataFrame:
        """What is translated: the positions that were frozen behind the fence."""
        return procedure.artifacts.load(procedure.progress.require(ConsumersDrained).positions)

    def translated(self, procedure: Run, context: Any, positions: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, Any]]:
        """The rows that Spark makes of the positions, and its summary."""
        made = run_spark_job(
            procedure,
            context,
            "translate_offsets",
            lambda folder: self.write_inputs(procedure, folder, positions),
            "Spark did not translate the positions",
        )
        return pd.read_parquet(made / "translation.parquet"), json.loads(
            (made / "summary.json").read_text(encoding="utf-8")
        )

    def write_inputs(self, procedure: Run, folder: Path, positions: pd.DataFrame) -> dict[str, Any]:
        """Write positions, syncs and bounds; answer what the job must know beside."""
        write_frame(folder, "positions", positions.assign(may_have_moved=False))
        write_frame(folder, "syncs", offset_syncs_of(procedure))
        bounds = with_copies(procedure, folder, bounds_frame(procedure))
        write_frame(folder, "bounds", bounds)
        tell_unknown(procedure, self.task_id, write_lineage(procedure, folder, bounds, positions))
        return {"isolation": procedure.progress.require(ReadinessChecked).isolation, "source_readable": True}


def bounds_frame(procedure: Run) -> pd.DataFrame:
    """One row per source partition: where both logs begin and end, and what is known of them."""
    cut_off, source, target = cut_off_of(procedure), procedure.systems.source, procedure.systems.target
    remote = remote_partitions(procedure, sorted(cut_off))
    topics, names = {tp.topic for tp in cut_off}, {tp.topic for tp in remote.values()}
    return bounds_of(
        remote,
        source_start=source.starts(list(cut_off)),
        cut_off=cut_off,
        target_start=target.starts(list(remote.values())),
        boundary=boundary_of(procedure),
        source_configs=source.configs(sorted(topics)),
        target_configs=target.configs(sorted(names)),
        drained=cut_off,
        other_writer=open_to_clients(procedure, names),
        restamped=stamped_when_copied_back(procedure, topics),
    )


def stamped_when_copied_back(procedure: Run, topics: set[str]) -> set[str]:
    """Source topics that gave records copied back another time; none before clients first changed sides."""
    if names_protect(procedure) or not moved_clients(procedure):
        return set()
    return stamped_in(procedure.systems.source.configs(sorted(topics)))


def open_to_clients(procedure: Run, topics: set[str]) -> set[str]:
    """Those of the target's topics that clients may write to: their logs may hold more than what was mirrored."""
    rules, exempt = target_rules(procedure), procedure.exempt(procedure.request.target)
    allowed = still_allowed(rules, FenceScope.writes(topics), exempt)
    return {topic for topic in topics if any(entry.endswith(f": {topic}") for entry in allowed)}


#: What makes a translated position that of a committed one.
KEY = ["group", "topic", "partition", "position"]


def check_complete(positions: pd.DataFrame, rows: pd.DataFrame) -> None:
    """Every committed position has exactly one translated row."""
    if len(positions) == len(rows) and _same_rows(positions[KEY], rows[KEY]):
        return
    asked, got = (set(map(tuple, frame[KEY].to_numpy())) for frame in (positions, rows))
    if len(rows) != len(asked) or got != asked:
        missing = sorted(asked - got)[:5]
        raise Contradiction(
            "The translation does not answer every position once",
            f"{len(asked)} asked, {len(rows)} answered; missing {missing}",
            "The procedure returns by itself; see the task's log, then start a new one.",
        )


def _same_rows(one: pd.DataFrame, other: pd.DataFrame) -> bool:
    """Whether two frames hold the same rows in any order, by 64-bit hashes: comparing tuples takes seconds."""
    alike = [
        frame.astype({"group": object, "topic": object, "partition": "int64", "position": "int64"})
        for frame in (one, other)
    ]
    here, there = (np.sort(pd.util.hash_pandas_object(frame, index=False).to_numpy()) for frame in alike)
    return np.array_equal(here, there)


def _largest(values: pd.Series) -> int | None:
    """The largest value; None where one of them is unknown, or there is none."""
    return None if values.isna().any() or not len(values) else int(values.max())


_GROUPS_NAMED = 20


def rereads_by_group(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Groups with most rereads by MirrorMaker 2's checkpoints: these and our bound, summed over partitions.

    Our bound is null where one of its positions has none; theirs counts positions with a checkpoint only.
    """
    codes, names = ranked(rows["group"])
    found = rows.groupby(codes)
    sums = pd.DataFrame(
        {
            "bound": found["bound"].sum(),
            "unknown": rows["bound"].isna().groupby(codes).any(),
            "mirror_maker": found["mirror_maker_rereads"].sum(),
        }
    )
    most = sums.sort_values("mirror_maker", ascending=False, kind="stable").head(_GROUPS_NAMED)
    return [
        {"group": names[code], "bound": None if unknown else int(bound), "mirror_maker": int(theirs)}
        for code, bound, unknown, theirs in most.itertuples()
        if theirs
    ]


class CommitGroups(ResumedStep):
    """Commit the translated positions to groups that are idle on the target, and read every one back."""

    def act(self, procedure: Run, context: Any) -> GroupsCommitted:
        """Snapshot, make the topics that clients lack, commit what differs, read back all, keep a ledger."""
        require_reviewed(procedure)
        to_commit = ToCommit(procedure)
        active = active_groups(procedure.systems.target, to_commit.groups)
        if active:
            raise Refusal(
                "Groups have members on the target",
                first_few(sorted(active)),
                "Stop those consumers; positions of a living group are never touched.",
            )
        before = held_positions(procedure, to_commit.groups)
        snapshot = self._snapshot(procedure, before)
        create_missing_topics(procedure)
        wanted = to_commit.rows(procedure.artifacts.load(snapshot))
        todo = differing(wanted, before)
        record(procedure.authority, self.task_id, PositionsToCommit(positions=len(todo), of=len(wanted)))
        procedure.authority.hold()
        errors = commit(procedure, todo)
        ledger = ledger_frame(wanted, before, held_positions(procedure, to_commit.groups), errors)
        receipt = procedure.artifacts.save("ledger", ledger)
        # A position that is not there at all compares as unknown, and unknown is wrong.
        wrong = ledger[~ledger["read_back"].eq(ledger["wanted"]).fillna(False)]
        if len(wrong):
            raise ReadBackFailed(
                f"{len(wrong)} of {len(wanted)} positions are not what was committed",
                str(wrong.head(5).to_dict("records")),
                "The procedure returns by itself; the ledger names every position. Start a new one.",
            )
        local = procedure.systems.target.ends(list(local_partitions(procedure)))
        return GroupsCommitted(
            groups=wanted["group"].nunique(),
            positions=len(wanted),
            committed=len(todo),
            snapshot=snapshot,
            ledger=receipt,
            local_ends=procedure.artifacts.save("local_ends", partitions_frame(local, "offset")),
        )

    def _snapshot(self, procedure: Run, held: pd.DataFrame) -> Receipt:
        """What the groups held on the target before the first commit; a second run keeps the first one's."""
        taken = snapshot_taken(procedure)
        if taken is not None:
            return taken
        receipt = procedure.artifacts.save("snapshot", held)
        record(procedure.authority, self.task_id, SnapshotTaken(snapshot=receipt))
        return receipt


def snapshot_taken(procedure: Run) -> Receipt | None:
    """The receipt of what groups held on the target before the procedure's first commit; None before that."""
    return next((note.snapshot for note in procedure.progress.facts(SnapshotTaken)), None)


def require_reviewed(procedure: Run) -> None:
    """Require approval of the plan, and where due of translation and grown loss, whatever the gate's outcome says."""
    procedure.approvals.require_plan()
    procedure.progress.outcome_entry(Step.REVIEW_TRANSLATION)
    more = loss_grown(procedure)
    digest = digest_to_review(procedure, more)
    if digest is None:
        return
    try:
        procedure.approvals.require(Step.REVIEW_TRANSLATION, digest)
    except ApprovalMissing as error:
        if not more:
            raise
        told = "; ".join(f"{one.topic}-{one.partition}: {one.why}" for one in more[:5])
        raise ApprovalMissing(
            f"More is lost than was approved, on {len(more)} partitions",
            f"{told}. {error.reason}: {error.seen}",
            error.next_step,
        ) from error


def digest_to_review(procedure: Run, more: Sequence[Grown]) -> str | None:
    """Digest of the translation and of a loss beyond what was approved; None where no person must see them.

    A person must where more is lost, a position is not exact, records are missing, or groups move that the plan does
    not name.
    """
    found = procedure.progress.require(OffsetsTranslated)
    asked = more or found.exact != found.positions or found.holes or found.cut or groups_born(procedure)
    return review_digest(found.digest, more) if asked else None


def groups_born(procedure: Run) -> list[str]:
    """Groups that move though the plan does not name them: those born between it and the fence."""
    progress = procedure.progress
    return [] if progress.without_source else list(progress.require(ConsumersDrained).groups_since_forecast)


class ToCommit:
    """Every position that commit_groups writes; nothing is changed by computing them.

    Attributes:
        groups: those that are written to, and those with a refused position.
    """

    def __init__(self, procedure: Run) -> None:
        self._procedure = procedure
        self._wanted, self._refused = wanted_positions(procedure), refused_places(procedure)
        self.groups = list(dict.fromkeys([*self._wanted["group"].tolist(), *self._refused["group"].tolist()]))

    def rows(self, held: pd.DataFrame) -> pd.DataFrame:
        """The positions in order; `held` is what the groups held on the target before the first commit."""
        return with_set_back(self._procedure, self._wanted, self._refused, held)


def positions_to_commit(procedure: Run) -> pd.DataFrame:
    """What commit_groups would write if it ran now."""
    to_commit, taken = ToCommit(procedure), snapshot_taken(procedure)
    held = held_positions(procedure, to_commit.groups) if taken is None else procedure.artifacts.load(taken)
    return to_commit.rows(held)


def translation_of(procedure: Run) -> pd.DataFrame:
    """What translate_offsets answered, one row a position."""
    return procedure.artifacts.load(procedure.progress.require(OffsetsTranslated).translation)


def translated_positions(procedure: Run) -> pd.DataFrame:
    """The positions on the target that the translation answered, without refused ones."""
    rows = translation_of(procedure)
    answered = rows[rows["target_position"].notna() & (rows["class"] != TranslationClass.REFUSED.value)]
    return answered[["group", "target_topic", "partition", "target_position"]].set_axis(COLUMNS, axis=1)


def wanted_positions(procedure: Run) -> pd.DataFrame:
    """Positions to write on the target, in order, without refused and unplaced rows, which the review has shown.

    Where clients will write to other topics than the mirrored ones, or to one that never came, their groups start at
    those topics' beginning.
    """
    wanted = translated_positions(procedure)
    left_alone = excluded_positions(procedure)
    others = {(group, *remote): position for (group, _, remote), position in left_alone.items()}
    local = starts_of_clients_topics(procedure)
    if local:
        rows = translation_of(procedure)
        taken = {*zip(*(wanted[name].tolist() for name in PLACE), strict=True), *others}
        reading = {
            *zip(rows["group"].tolist(), rows["topic"].tolist(), strict=True),
            *((group, topic) for group, topic, _ in left_alone),
        }
        beginnings = {
            (group, *tp): start for group, topic in reading if topic in local for tp, start in local[topic].items()
        }
        others |= {place: start for place, start in beginnings.items() if place not in taken}
    if others:
        wanted = pd.concat(
            [wanted, pd.DataFrame([(*place, position) for place, position in others.items()], columns=COLUMNS)]
        )
    return in_order(wanted.astype(TYPES))


def refused_places(procedure: Run) -> pd.DataFrame:
    """Group, topic and partition on the target of every position that was refused."""
    rows = translation_of(procedure)
    refused = rows[(rows["class"] == TranslationClass.REFUSED.value) & rows["target_topic"].notna()]
    return (
        refused[["group", "target_topic", "partition"]]
        .set_axis(PLACE, axis=1)
        .astype({name: TYPES[name] for name in PLACE})
    )


def with_set_back(procedure: Run, wanted: pd.DataFrame, refused: pd.DataFrame, held: pd.DataFrame) -> pd.DataFrame:
    """The wanted positions, and the log start for refused ones whose group stood further there before.

    Danger: an older position on a cluster that clients return to may lie behind records that the group has not read.
    """
    stale = beside(refused, held, "held").dropna(subset=["held"])
    places = [TopicPartition(topic, int(p)) for topic, p in zip(stale["topic"], stale["partition"], strict=True)]
    starts = procedure.systems.target.starts(sorted(set(places))) if places else {}
    back = stale.assign(position=[starts[tp] for tp in places]).query("held > position")[COLUMNS]
    taken = pd.MultiIndex.from_frame(wanted[PLACE])
    back = back[~pd.MultiIndex.from_frame(back[PLACE]).isin(taken)] if len(back) else back
    return in_order(pd.concat([wanted, back]).astype(TYPES)) if len(back) else wanted


def excluded_positions(procedure: Run) -> dict[tuple[str, str, TopicPartition], int]:
    """(group, source topic, target partition) -> an excluded group's begin by its policy; none for `fail`."""
    policies = {one.group: one.policy for one in excluded_groups(procedure) if one.policy != "fail"}
    if not policies:
        return {}
    held = positions_frame(procedure, sorted(policies))
    places = [
        (group, TopicPartition(topic, int(p)))
        for group, topic, p in zip(held["group"], held["topic"], held["partition"], strict=True)
    ]
    remote = remote_partitions(procedure, {tp for _, tp in places})
    starts = procedure.systems.target.starts(list(remote.values()))
    # Originals of copies stand still, and have no boundary of their own.
    at = {"earliest": starts, "boundary": procedure.systems.target.ends(list(remote.values())) | boundary_of(procedure)}
    return {(group, tp.topic, remote[tp]): at[policies[group]][remote[tp]] for group, tp in places}


def starts_of_clients_topics(procedure: Run) -> dict[str, dict[TopicPartition, int]]:
    """Topic -> log starts of the topic clients will write to; 0 where that is still to be made.

    Empty where clients go on with the mirrored topics themselves, and all of these are there.
    """
    topics = not_mirrored(procedure)
    if not topics:
        return {}
    starts = dict(procedure.systems.target.starts(local_partitions(procedure)))
    for topic, partitions in missing_topics(procedure).items():
        starts |= {TopicPartition(topic, p): 0 for p in range(partitions)}
    return {topic: {tp: start for tp, start in starts.items() if tp.topic == topic} for topic in topics}


def missing_topics(procedure: Run) -> dict[str, int]:
    """Topics that clients will write to and that are not on the target yet, with their number of partitions."""
    topics = not_mirrored(procedure)
    there = procedure.systems.target.topics(topics) if topics else {}
    planned = procedure.progress.move().planned.topics
    return {t: count for t, _, count, _ in planned if t in topics and t not in there}


def create_missing_topics(procedure: Run) -> None:
    """Make the topics that clients will write to and that are not on the target, like the source's."""
    missing = missing_topics(procedure)
    if not missing:
        return
    configs = configs_of_clients_topics(procedure, sorted(missing))
    record(procedure.authority, Step.COMMIT_GROUPS, TopicsToCreate(creates_topics=list(missing)))
    for topic, partitions in missing.items():
        procedure.authority.hold()
        procedure.systems.target.create_topic(topic, partitions=partitions, configs=portable_configs(configs[topic]))


def not_mirrored(procedure: Run) -> list[str]:
    """Clients' topics whose mirrored one has another name, or had not come when MirrorMaker 2 was stopped."""
    plan, stopped = procedure.progress.move().planned, procedure.progress.done(MirrorMakerStopped)
    boundary = None if stopped is None else procedure.artifacts.load(stopped.boundary)
    came = {one.remote for one in plan.topics} if boundary is None else set(boundary["topic"])
    return [one.topic for one in plan.topics if one.topic != one.remote or one.remote not in came]


def configs_of_clients_topics(procedure: Run, topics: list[str]) -> dict[str, Settings]:
    """Settings of the source's topics; without the source those of their copies, which MirrorMaker 2 gave the same."""
    if not procedure.progress.without_source:
        return procedure.systems.source.configs(topics)
    remote = {topic: procedure.naming.remote(procedure.flow.source, topic) for topic in topics}
    found = procedure.systems.target.configs(list(remote.values()))
    # What never reached the target has no copy there: its topic is made with the settings of the cluster.
    return {topic: found.get(name, Settings({})) for topic, name in remote.items()}


def local_partitions(procedure: Run) -> list[TopicPartition]:
    """Partitions of clients' topics that are `not_mirrored`, as far as they exist on the target."""
    topics = not_mirrored(procedure)
    infos = procedure.systems.target.topics(topics) if topics else {}
    return [TopicPartition(t, p) for t, info in sorted(infos.items()) for p in info.partitions]


_NOT_PORTABLE = ("replicas", "min.insync.replicas", "unclean.leader.election.enable")


def portable_configs(configs: Settings) -> dict[str, str]:
    """A topic's own settings that mean the same on another cluster."""
    return {
        k: v
        for k, v in configs.items()
        if k in configs.overrides and not k.endswith(_NOT_PORTABLE[0]) and k not in _NOT_PORTABLE
    }


def held_positions(procedure: Run, groups: list[str]) -> pd.DataFrame:
    """What the groups hold on the target now; only groups that exist there are asked."""
    there = procedure.systems.target.groups()
    return positions_of(procedure.systems.target, [group for group in groups if group in there], require_stable=False)


def differing(wanted: pd.DataFrame, held: pd.DataFrame) -> pd.DataFrame:
    """The wanted positions that are not held."""
    both = beside(wanted, held, "held")
    return wanted[both["held"].ne(both["position"]).fillna(True).to_numpy(dtype=bool)]


def beside(rows: pd.DataFrame, held: pd.DataFrame, name: str) -> pd.DataFrame:
    """The rows, in their order, with what is held at their place; null where nothing is."""
    # Whole numbers that may be missing, or pandas would make floats of them and round large offsets.
    return rows.merge(held.rename(columns={"position": name}).astype({name: "Int64"}), on=PLACE, how="left")


def commit(procedure: Run, todo: pd.DataFrame) -> dict[tuple[str, TopicPartition], str]:
    """Commit the positions, many groups in flight; what was refused comes back with the broker's words."""
    results = procedure.systems.target.commit_many(by_group(todo))
    return {(group, tp): word for group, outcomes in results.items() for tp, word in outcomes.items() if word != OK}


def ledger_frame(
    wanted: pd.DataFrame, before: pd.DataFrame, after: pd.DataFrame, errors: Mapping[tuple[str, TopicPartition], str]
) -> pd.DataFrame:
    """One row per group and partition: before, wanted, read back, and the broker's refusal if any."""
    refused = pd.DataFrame(
        [(group, *tp, word) for (group, tp), word in errors.items()], columns=[*PLACE, "error"]
    ).astype({"group": object, "topic": object, "partition": "int32"})
    ledger = wanted.rename(columns={"position": "wanted"})
    ledger = beside(beside(ledger, before, "before"), after, "read_back")
    ledger = ledger.merge(refused, on=PLACE, how="left") if errors else ledger.assign(error=None)
    return ledger[[*PLACE, "before", "wanted", "read_back", "error"]].astype(
        {"partition": "int64", "before": "Int64", "wanted": "Int64", "read_back": "Int64", "error": "string"}
    )
