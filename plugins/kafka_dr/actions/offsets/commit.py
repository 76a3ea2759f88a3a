"""Compute groups' positions on the target, commit them to groups without members, and list them in a ledger.

The *ledger* is the file with one row per group and target partition that says which position was to be committed, and
which position was read back.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from kafka_dr.actions.groups.at_rest import positions_frame
from kafka_dr.actions.offsets.client_topics import ends_of_clients_topics, starts_of_clients_topics
from kafka_dr.actions.scope.flow_scope import local_views_of, remote_partitions
from kafka_dr.actions.scope.plan_scope import boundary_of, excluded_groups
from kafka_dr.actions.scope.position_frames import COLUMNS, PLACE, TYPES, by_group, in_order, positions_of
from kafka_dr.domain.flow_graph.views import BEGINS_AT_END
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.hooks.brokers.group_requests import OK
from kafka_dr.procedure.entries import OffsetsTranslated, Receipt, SnapshotTaken
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import TranslationClass


def snapshot_taken(procedure: Run) -> Receipt | None:
    """Return the receipt of the positions that groups had on the target before the procedure's first commit.

    None if the journal has no receipt of this snapshot.
    """
    return next((note.snapshot for note in procedure.progress.facts(SnapshotTaken)), None)


class ToCommit:
    """Computes the positions that commit_groups writes on the target; changes nothing on the clusters.

    Attributes:
        groups: groups with a position to write, or with a position whose translation is `REFUSED`.
    """

    def __init__(self, procedure: Run) -> None:
        self._procedure = procedure
        self._wanted, self._refused = wanted_positions(procedure), refused_places(procedure)
        self.groups = list(dict.fromkeys([*self._wanted["group"].tolist(), *self._refused["group"].tolist()]))

    def rows(self, held: pd.DataFrame) -> pd.DataFrame:
        """Return the positions to write on the target, sorted: group, topic, partition, position.

        Args:
            held: the groups' positions on the target before the procedure's first commit. A position whose translation
                is `REFUSED` is set to the log start if it is in `held` and lies above the log start.
        """
        return with_resets_for_refused(self._procedure, self._wanted, self._refused, held)


def positions_to_commit(procedure: Run) -> pd.DataFrame:
    """Return the positions that commit_groups would write on the target now: group, topic, partition, position."""
    to_commit, receipt = ToCommit(procedure), snapshot_taken(procedure)
    held = held_positions(procedure, to_commit.groups) if receipt is None else procedure.artifacts.load(receipt)
    return to_commit.rows(held)


def translation_of(procedure: Run) -> pd.DataFrame:
    """Return the translation that translate_offsets saved: one row per group and source partition with a position."""
    return procedure.artifacts.load(procedure.progress.require(OffsetsTranslated).translation)


def translated_positions(procedure: Run) -> pd.DataFrame:
    """Return the translated positions (group, target topic, partition, position), without class `REFUSED`."""
    rows = translation_of(procedure)
    translated = rows[rows["target_position"].notna() & (rows["class"] != TranslationClass.REFUSED.value)]
    return translated[["group", "target_topic", "partition", "target_position"]].set_axis(COLUMNS, axis=1)


def wanted_positions(procedure: Run) -> pd.DataFrame:
    """Return the positions that groups should get on the target, sorted: group, topic, partition, position.

    These are the translated positions, and the positions of excluded groups by the groups' policies. In topics that
    clients will write to and that MirrorMaker 2 did not mirror, groups start at the log start, groups of policy
    `boundary` with a local view at the log end. Positions that are
    `REFUSED` or not translated are left out; review_translation has shown these positions to the approver.
    """
    wanted = translated_positions(procedure)
    left_alone = excluded_positions(procedure)
    additional = {(group, *remote): position for (group, _, remote), position in left_alone.items()}
    local = starts_of_clients_topics(procedure)
    if local:
        rows = translation_of(procedure)
        taken = {*zip(*(wanted[name].tolist() for name in PLACE), strict=True), *additional}
        reading = {
            *zip(rows["group"].tolist(), rows["topic"].tolist(), strict=True),
            *((group, topic) for group, topic, _ in left_alone),
        }
        beginnings = {
            (group, *tp): start for group, topic in reading if topic in local for tp, start in local[topic].items()
        }
        beginnings |= _beginnings_at_end(procedure, reading, beginnings)
        additional |= {place: start for place, start in beginnings.items() if place not in taken}
    if additional:
        wanted = pd.concat(
            [wanted, pd.DataFrame([(*place, position) for place, position in additional.items()], columns=COLUMNS)]
        )
    return in_order(wanted.astype(TYPES))


def _beginnings_at_end(
    procedure: Run, reading: set[tuple[str, str]], beginnings: Mapping[tuple[str, str, int], int]
) -> dict[tuple[str, str, int], int]:
    """Return the places of groups with a local view, and policy `boundary`: (group, topic, partition) -> log end.

    A group with a local view did not read the records that the target's own clients wrote, and shall not begin to.
    """
    views = {
        view for view in local_views_of(procedure, reading) if procedure.topology.policy_of(view[0]) == BEGINS_AT_END
    }
    ends = ends_of_clients_topics(procedure) if views else {}
    return {
        (group, topic, partition): ends[TopicPartition(topic, partition)]
        for group, topic, partition in beginnings
        if (group, topic) in views
    }


def refused_places(procedure: Run) -> pd.DataFrame:
    """Return group, target topic and partition of every position whose translation is `REFUSED`."""
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
    """Return the wanted positions, plus resets to the log start where a translation is `REFUSED`.

    On a cluster to which clients return, a group may still have an old position, which may lie beyond records that the
    group has not read. If the translation of such a position is `REFUSED`, the position is set to the target's log
    start, unless it lies below the log start.

    Args:
        wanted: positions to commit on the target.
        refused: group, target topic and partition of each position whose translation is `REFUSED`.
        held: the groups' positions on the target before the procedure's first commit.
    """
    stale = with_held_position(refused, held, "held").dropna(subset=["held"])
    partitions = [
        TopicPartition(topic, int(partition))
        for topic, partition in zip(stale["topic"], stale["partition"], strict=True)
    ]
    starts = procedure.systems.target.starts(sorted(set(partitions))) if partitions else {}
    resets = stale.assign(position=[starts[tp] for tp in partitions]).query("held > position")[COLUMNS]
    taken = pd.MultiIndex.from_frame(wanted[PLACE])
    resets = resets[~pd.MultiIndex.from_frame(resets[PLACE]).isin(taken)] if len(resets) else resets
    return in_order(pd.concat([wanted, resets]).astype(TYPES)) if len(resets) else wanted


def excluded_positions(procedure: Run) -> dict[tuple[str, str, TopicPartition], int]:
    """Return (excluded group, source topic, target partition) -> target position by the group's policy.

    Groups with the policy `fail` are left out, because no position is committed for them.
    """
    policies = {excluded.group: excluded.policy for excluded in excluded_groups(procedure) if excluded.policy != "fail"}
    if not policies:
        return {}
    positions = positions_frame(procedure, sorted(policies))
    places = [
        (group, TopicPartition(topic, int(partition)))
        for group, topic, partition in zip(positions["group"], positions["topic"], positions["partition"], strict=True)
    ]
    remote = remote_partitions(procedure, {tp for _, tp in places})
    starts = procedure.systems.target.starts(list(remote.values()))
    # Topics of the target itself have no boundary. A group that reads prefixed copies of these topics on the source
    # gets the topics' current log ends instead, which do not move.
    by_policy = {
        "earliest": starts,
        "boundary": procedure.systems.target.ends(list(remote.values())) | boundary_of(procedure),
    }
    return {(group, tp.topic, remote[tp]): by_policy[policies[group]][remote[tp]] for group, tp in places}


def held_positions(procedure: Run, groups: list[str]) -> pd.DataFrame:
    """Return the positions that these groups have on the target now; no rows for groups that the target lacks.

    Each group is asked for by name, because a list of all groups can lack some while brokers restart.
    """
    return positions_of(procedure.systems.target, groups, require_stable=False)


def changed_positions(wanted: pd.DataFrame, held: pd.DataFrame) -> pd.DataFrame:
    """Return the wanted positions that differ from the positions in `held`, or that `held` does not have."""
    compared = with_held_position(wanted, held, "held")
    return wanted[compared["held"].ne(compared["position"]).fillna(True).to_numpy(dtype=bool)]


def with_held_position(rows: pd.DataFrame, held: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return the rows with an added column `name`: the position in `held` of the same group and partition.

    Null if `held` has no such position. The order of the rows does not change.
    """
    # Nullable integers: pandas would turn missing values into floats and round large offsets.
    return rows.merge(held.rename(columns={"position": name}).astype({name: "Int64"}), on=PLACE, how="left")


def commit_positions(procedure: Run, todo: pd.DataFrame) -> dict[tuple[str, TopicPartition], str]:
    """Commit positions on the target, many groups concurrently.

    Returns:
        (group, partition) -> the broker's error, for each position that the broker refused.
    """
    results = procedure.systems.target.commit_many(by_group(todo))
    return {(group, tp): error for group, outcomes in results.items() for tp, error in outcomes.items() if error != OK}


def ledger_frame(
    wanted: pd.DataFrame, before: pd.DataFrame, after: pd.DataFrame, errors: Mapping[tuple[str, TopicPartition], str]
) -> pd.DataFrame:
    """Return the ledger: position before, wanted and read back, and the broker's error, null without an error.

    Args:
        wanted: positions to commit on the target.
        before, after: the groups' positions on the target before and after the commit.
        errors: (group, target partition) -> the broker's error.
    """
    refused = pd.DataFrame(
        [(group, *tp, error) for (group, tp), error in errors.items()], columns=[*PLACE, "error"]
    ).astype({"group": object, "topic": object, "partition": "int32"})
    ledger = wanted.rename(columns={"position": "wanted"})
    ledger = with_held_position(with_held_position(ledger, before, "before"), after, "read_back")
    ledger = ledger.merge(refused, on=PLACE, how="left") if errors else ledger.assign(error=None)
    return ledger[[*PLACE, "before", "wanted", "read_back", "error"]].astype(
        {"partition": "int64", "before": "Int64", "wanted": "Int64", "read_back": "Int64", "error": "string"}
    )
