"""Groups of the source and their positions, written down where they differ.

Invariants
1. What is read counts as known once all of it was read: what a slow answer kept back is asked for again at the next
   sample.
2. A whole listing is all there is: of a group or a position that it lacks nothing is left, whatever was written before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.recorder_rows import Kind, NewestRows, Positions, RecorderRows, commits_partition
from kafka_dr.errors import KafkaUnavailable
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.brokers.descriptions import GroupInfo
from kafka_dr.recorder.clients import ASK_SECONDS, Side
from kafka_dr.vocabulary import COMMITS_TOPIC

WHOLE, CHANGED = "whole", "changed"
_MOVED_TYPES = ("classic", "consumer")


class Groups:
    """A flow's groups, and what was last written down of them."""

    def __init__(self, source: KafkaCluster) -> None:
        self._source = source
        self._states: NewestRows[str, tuple[int, str]] = NewestRows()
        self._positions = Positions()
        self._commit_ends: dict[int, int] = {}
        self._owes_whole = True

    def owe_whole(self) -> None:
        """The next listing that succeeds is a whole one."""
        self._owes_whole = True

    def write(self, rows: RecorderRows, source: Side, selects: Callable[[str], bool]) -> str:
        """Write down what differs, or everything where that is owed; answers `WHOLE` or `CHANGED`.

        Args:
            source: as this look saw it.
            selects: tells which groups move with the flow.

        Raises:
            KafkaUnavailable: not all could be read; then nothing is written down.
        """
        whole, ends = self._owes_whole, self._read_commit_ends(source)
        groups = {
            name: info
            for name, info in self._source.groups(ASK_SECONDS).items()
            if selects(name) and info.type in _MOVED_TYPES
        }
        held = self._read_positions(groups if whole else self._that_may_have_committed(groups, ends))
        self._write_states(rows, groups, whole)
        self._write_positions(rows, held, whole)
        self._commit_ends, self._owes_whole = ends, False
        return WHOLE if whole else CHANGED

    def _read_commit_ends(self, source: Side) -> dict[int, int]:
        """Read log ends of the __consumer_offsets topic by partition; {} if not visible: all groups are then read."""
        commits = source.topics.get(COMMITS_TOPIC)
        partitions = [TopicPartition(COMMITS_TOPIC, p) for p in commits.partitions] if commits else []
        try:
            return {tp.partition: end for tp, end in self._source.ends(partitions, timeout=ASK_SECONDS).items()}
        except KafkaUnavailable as error:
            if not error.from_broker:
                raise
            return {}

    def _that_may_have_committed(self, groups: Iterable[str], ends: dict[int, int]) -> list[str]:
        moved = {partition for partition, end in ends.items() if self._commit_ends.get(partition) != end}
        return [
            name
            for name in groups
            if not ends or name not in self._positions or commits_partition(name, len(ends)) in moved
        ]

    def _read_positions(self, asked: Collection[str]) -> dict[str, dict[tuple[str, int], int]]:
        found = self._source.position_columns(asked, require_stable=False, timeout=ASK_SECONDS)
        held: dict[str, dict[tuple[str, int], int]] = {name: {} for name in asked}
        for group, topic, partition, position in zip(*found, strict=True):
            held[group][topic, partition] = position
        return held

    def _write_states(self, rows: RecorderRows, groups: dict[str, GroupInfo], whole: bool) -> None:
        states = {name: (len(info.members), info.state) for name, info in groups.items()}
        for name, (members, state) in self._states.differing(states, whole).items():
            rows.add(Kind.GROUP, group=name, members=members, state=state)
        for name in self._states.gone(states):
            rows.add(Kind.GROUP, group=name, state="Gone")
            self._positions.forget(name)

    def _write_positions(self, rows: RecorderRows, held: dict[str, dict[tuple[str, int], int]], whole: bool) -> None:
        differing = [
            (name, *tp, position)
            for name, all_of_it in held.items()
            for tp, position in self._positions.differing(name, all_of_it, whole).items()
        ]
        if differing:
            group, topic, partition, position = (list(column) for column in zip(*differing, strict=True))
            rows.extend(Kind.POSITION, group=group, topic=topic, partition=partition, position=position)
