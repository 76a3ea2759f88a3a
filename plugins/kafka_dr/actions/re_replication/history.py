"""Place the groups, and make MirrorMaker 2's checkpoints begin on the new copies.

A checkpoint connector reads all offset syncs and checkpoints that it ever wrote. Those of the older copies would place
groups behind the new log's end, and group sync would commit that. A tombstone would end its reading. So true records
are added: the sync of a partition's first record, below all syncs before it, makes MirrorMaker 2 forget these; the sync
of its last record places groups at the end; a checkpoint of each group replaces the one of the older copies.

This module runs while the checkpoint connector is stopped. Each record is a true statement, so writing it twice, or
while the source connector adds syncs of its own, changes no answer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import pandas as pd

from kafka_dr.actions.offsets.commit import changed_positions, commit_positions, held_positions, ledger_frame
from kafka_dr.actions.re_replication.groups import refuse_active_groups, target_positions
from kafka_dr.actions.re_replication.scope import planned_topics
from kafka_dr.actions.scope.internal_topics import checkpoints_of, last_offset_syncs, syncs_place
from kafka_dr.actions.scope.position_frames import COLUMNS, PLACE, TYPES, in_order
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.mirror_maker.mirror_records import (
    Checkpoint,
    OffsetSync,
    encode_checkpoint,
    encode_offset_sync,
)
from kafka_dr.domain.plain_text import first_few
from kafka_dr.domain.re_replication.new_history import ComparedPartition, syncs_of_new_copies
from kafka_dr.errors import ReadBackFailed
from kafka_dr.procedure.entries import CopiesAwaited, CopiesVerified, Receipt, TargetTopicsExported
from kafka_dr.procedure.run import Run

#: Records of one topic that are written between two checks of the lease.
_BATCH = 5_000
_STOP_CONSUMERS = (
    "The copies are complete; positions are not committed yet. Stop the consumers of these groups on the target, then"
    " clear place_target_groups."
)


@dataclass(frozen=True)
class NewHistory:
    """What is written so that groups and MirrorMaker 2 go on at the new copies.

    Attributes:
        positions: positions to commit on the target: group, topic, partition, position.
        syncs, checkpoints: records for MirrorMaker 2's internal topics.
    """

    positions: pd.DataFrame
    syncs: tuple[OffsetSync, ...]
    checkpoints: tuple[Checkpoint, ...]


def new_history(procedure: Run) -> NewHistory:
    """Return the positions, offset syncs and checkpoints that follow from the comparison of the copies."""
    verified = procedure.progress.require(CopiesVerified)
    exported = procedure.artifacts.load(procedure.progress.require(TargetTopicsExported).positions)
    placed = procedure.artifacts.load(verified.placed)
    held = set(zip(*(exported[name] for name in PLACE), strict=True))
    on_target = [place in held for place in zip(*(placed[name] for name in PLACE), strict=True)]
    pairs = list(_compared(procedure.artifacts.load(verified.pairs)))
    newest = last_offset_syncs(procedure)
    syncs = [sync for pair in pairs for sync in syncs_of_new_copies(pair, newest.get(pair.partition))]
    positions = [placed[pd.Series(on_target, index=placed.index, dtype=bool)]]
    if procedure.flow.connect is None:
        positions.append(_synced_meanwhile(procedure, held, placed, pairs))
    return NewHistory(
        in_order(pd.concat(positions)),
        tuple(syncs),
        tuple(_checkpoints(procedure, placed, pairs)),
    )


def _synced_meanwhile(
    procedure: Run, held: Collection[tuple[str, str, int]], placed: pd.DataFrame, pairs: Iterable[ComparedPartition]
) -> pd.DataFrame:
    """Return safe positions for groups that got one on the target while the topics were copied.

    Without a Connect worker the checkpoint connector ran meanwhile, with its older history: its group sync may have
    placed a group behind records that the group has not read. None of them stays beyond its place.
    """
    chosen = planned_topics(procedure)
    begins = {(chosen.names[pair.partition.topic], pair.partition.partition): pair.begins for pair in pairs}
    places = {(group, topic, p): position for group, topic, p, position in placed.itertuples(index=False)}
    rows = [
        (*place, min(position, places.get(place, begins[place[1:]])))
        for *named, position in target_positions(chosen).itertuples(index=False)
        if (place := tuple(named)) not in held and place[1:] in begins
    ]
    return pd.DataFrame(rows, columns=COLUMNS).astype(TYPES)


def _compared(frame: pd.DataFrame) -> Iterator[ComparedPartition]:
    for row in frame.to_dict("records"):
        first, last = (
            None if pd.isna(row[f"{which}_source"]) else (int(row[f"{which}_source"]), int(row[f"{which}_target"]))
            for which in ("first", "last")
        )
        partition = TopicPartition(row["topic"], int(row["partition"]))
        yield ComparedPartition(partition, first, last, int(row["end"]), int(row["begins"]))


def _checkpoints(procedure: Run, placed: pd.DataFrame, pairs: Iterable[ComparedPartition]) -> Iterator[Checkpoint]:
    """Yield a checkpoint for each group and chosen partition that has one, or that has a position to place.

    A group without a position on the source begins at the first copy: MirrorMaker 2 commits nothing for such a group.
    """
    names = planned_topics(procedure).names
    begins = {(names[pair.partition.topic], pair.partition.partition): pair.begins for pair in pairs}
    awaited = procedure.progress.facts(CopiesAwaited)[0]
    upstream = procedure.artifacts.load(awaited.positions)
    at_source = {
        (group, names[topic], partition): position
        for group, topic, partition, position in upstream.itertuples(index=False)
    }
    at_target = {(g, topic, partition): position for g, topic, partition, position in placed.itertuples(index=False)}
    existing = checkpoints_of(procedure)
    existing = existing[existing["topic"].isin(list(names.values()))]
    places = {*at_target, *zip(*(existing[name] for name in PLACE), strict=True)}
    for group, topic, partition in sorted(places):
        if (topic, partition) in begins:
            place = (group, topic, partition)
            source, target = at_source.get(place, 0), at_target.get(place, begins[topic, partition])
            yield Checkpoint(group, topic, int(partition), int(source), int(target))


def write_history(procedure: Run, history: NewHistory) -> None:
    """Append the syncs and checkpoints to MirrorMaker 2's internal topics; the lease is checked before each batch.

    Raises:
        ReadBackFailed: a record was not accepted.
    """
    alias, syncs_topic = syncs_place(procedure, procedure.flow)
    target, checkpoints_topic = procedure.flow.target, procedure.naming.checkpoints_topic(procedure.flow.source)
    syncs, checkpoints = map(encode_offset_sync, history.syncs), map(encode_checkpoint, history.checkpoints)
    for where, topic, records in ((alias, syncs_topic, syncs), (target, checkpoints_topic, checkpoints)):
        writer = procedure.systems.writer(where)
        while batch := [(0, key, value) for key, value in islice(records, _BATCH)]:
            procedure.authority.hold()
            if errors := writer.write_all(topic, batch):
                raise ReadBackFailed(
                    f"Records could not be written to {topic} on {where}",
                    ", ".join(errors),
                    f"Grant the principal of the connection to {where} WRITE on {topic}. Then clear"
                    " place_target_groups: it writes the records again, which changes no answer of MirrorMaker 2.",
                )


def commit_places(procedure: Run, positions: pd.DataFrame) -> tuple[Receipt, int]:
    """Commit the positions to groups without members, read them back; return the ledger, and how many were written.

    Raises:
        NotReady: a group has members on the target and reads the chosen topics.
        ReadBackFailed: a position was not read back as committed.
    """
    groups = sorted(set(positions["group"]))
    refuse_active_groups(planned_topics(procedure), positions, _STOP_CONSUMERS)
    before = held_positions(procedure, groups)
    todo = changed_positions(positions, before)
    procedure.authority.hold()
    errors = commit_positions(procedure, todo)
    ledger = ledger_frame(positions, before, held_positions(procedure, groups), errors)
    receipt = procedure.artifacts.save("placed_groups", ledger)
    wrong = ledger[~ledger["read_back"].eq(ledger["wanted"]).fillna(False)]
    if len(wrong):
        raise ReadBackFailed(
            f"{len(wrong)} positions on {procedure.request.target} were not read back as committed",
            first_few(wrong.head(5).to_dict("records")),
            "Stop the consumers of these groups on the target, then clear place_target_groups. The newest file"
            " placed_groups-*.parquet in the run's evidence folder has every position, with the broker's error.",
        )
    return receipt, len(todo)
