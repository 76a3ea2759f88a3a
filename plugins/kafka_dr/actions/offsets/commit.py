"""Translate positions with Spark, and commit them to idle groups on the target."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from kafka_dr.actions.groups.at_rest import positions_frame
from kafka_dr.actions.offsets.client_topics import starts_of_clients_topics
from kafka_dr.actions.scope.flow_scope import remote_partitions
from kafka_dr.actions.scope.plan_scope import boundary_of, excluded_groups
from kafka_dr.actions.scope.position_frames import (
    COLUMNS,
    PLACE,
    TYPES,
    by_group,
    in_order,
    positions_of,
)
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.hooks.brokers.group_requests import OK
from kafka_dr.procedure.entries import (
    OffsetsTranslated,
    Receipt,
    SnapshotTaken,
)
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import TranslationClass


def snapshot_taken(procedure: Run) -> Receipt | None:
    """The receipt of what groups held on the target before the procedure's first commit; None before that."""
    return next((note.snapshot for note in procedure.progress.facts(SnapshotTaken)), None)


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
        return with_resets_for_refused(self._procedure, self._wanted, self._refused, held)


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


def with_resets_for_refused(
    procedure: Run, wanted: pd.DataFrame, refused: pd.DataFrame, held: pd.DataFrame
) -> pd.DataFrame:
    """The wanted positions, and the log start for refused ones whose group stood further there before.

    Danger: an older position on a cluster that clients return to may lie behind records that the group has not read.
    """
    stale = with_held_position(refused, held, "held").dropna(subset=["held"])
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


def held_positions(procedure: Run, groups: list[str]) -> pd.DataFrame:
    """What the groups hold on the target now; only groups that exist there are asked."""
    there = procedure.systems.target.groups()
    return positions_of(procedure.systems.target, [group for group in groups if group in there], require_stable=False)


def changed_positions(wanted: pd.DataFrame, held: pd.DataFrame) -> pd.DataFrame:
    """The wanted positions that are not held."""
    both = with_held_position(wanted, held, "held")
    return wanted[both["held"].ne(both["position"]).fillna(True).to_numpy(dtype=bool)]


def with_held_position(rows: pd.DataFrame, held: pd.DataFrame, name: str) -> pd.DataFrame:
    """The rows, in their order, with what is held at their place; null where nothing is."""
    # Whole numbers that may be missing, or pandas would make floats of them and round large offsets.
    return rows.merge(held.rename(columns={"position": name}).astype({name: "Int64"}), on=PLACE, how="left")


def commit_positions(procedure: Run, todo: pd.DataFrame) -> dict[tuple[str, TopicPartition], str]:
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
    ledger = with_held_position(with_held_position(ledger, before, "before"), after, "read_back")
    ledger = ledger.merge(refused, on=PLACE, how="left") if errors else ledger.assign(error=None)
    return ledger[[*PLACE, "before", "wanted", "read_back", "error"]].astype(
        {"partition": "int64", "before": "Int64", "wanted": "Int64", "read_back": "Int64", "error": "string"}
    )
