"""Records the source's groups and their positions: one row for each change.

Invariants
1. An answer updates the recorder's state only if the whole answer was read: after a slow or partial answer the next
   sample asks again.
2. A whole listing has every group and every position: a group or position that is not listed no longer exists, even if
   earlier rows have it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from kafka_dr.domain.recorder_rows import Kind, NewestRows, Positions, RecorderRows, commits_partition
from kafka_dr.errors import KafkaUnavailable
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.brokers.descriptions import GroupInfo, TopicInfo
from kafka_dr.recorder.clients import Side, ask_seconds
from kafka_dr.vocabulary import COMMITS_TOPIC, MOVED_GROUP_TYPES

WHOLE, CHANGED = "whole", "changed"
#: Limit of the first listing of groups, in seconds: their number is not known yet.
_FIRST_SECONDS = 30.0
#: Groups that are listed in the time in which the positions of one are read.
_LISTED_IN_ONE = 4


class Groups:
    """Reads a flow's groups on the source; stores the last written states and positions, to write changes only."""

    def __init__(self, source: KafkaCluster) -> None:
        self._source = source
        #: Selected groups of an unknown type, whose positions are not recorded, as of the last listing.
        self.not_recorded: tuple[str, ...] = ()
        self._states: NewestRows[str, tuple[int, str]] = NewestRows()
        self._positions = Positions()
        self._commit_ends: dict[int, int] = {}
        self._whole_is_due = True
        self._listing_seconds = _FIRST_SECONDS

    def owe_whole(self) -> None:
        """Make the next successful `write` a whole listing: all states and positions, not only changes."""
        self._whole_is_due = True

    def write(self, rows: RecorderRows, source: Side, selects: Callable[[str], bool]) -> str:
        """Write changed states and positions, or all of them if a whole listing is due.

        The brokers do not list groups whose partition of __consumer_offsets has no leader: what was written of these
        groups stays, and a whole listing stays due until all groups are listed again.

        Return `WHOLE` if all were written, `CHANGED` if only changes were written.

        Args:
            rows: the sample's rows, to which rows are added.
            source: what this sample read of the source cluster.
            selects: returns whether the flow's filters include a group, by name.

        Raises:
            KafkaUnavailable: not all groups and positions could be read; nothing is written.
        """
        commits = source.topics.get(COMMITS_TOPIC)
        unlisted = {tp.partition for tp in commits.leaderless} if commits else set()
        whole, ends = self._whole_is_due and not unlisted, self._read_commit_ends(commits)
        listed = self._source.groups(self._listing_seconds)
        self._listing_seconds = ask_seconds(len(listed))
        selected = {name: info for name, info in listed.items() if selects(name)}
        groups = {name: info for name, info in selected.items() if info.type in MOVED_GROUP_TYPES}
        self.not_recorded = tuple(sorted(set(selected).difference(groups)))
        total = len(commits.partitions) if commits else 0
        positions = self._read_positions(groups if whole else self._with_possible_commits(groups, ends, total))
        still = [name for name in self._states.known if unlisted and commits_partition(name, total) in unlisted]
        self._write_states(rows, groups, whole, still)
        self._write_positions(rows, positions, whole)
        self._commit_ends, self._whole_is_due = ends, self._whole_is_due and not whole
        return WHOLE if whole else CHANGED

    def _read_commit_ends(self, commits: TopicInfo | None) -> dict[int, int]:
        """Return the log ends of the source's __consumer_offsets by partition number; {} if the source refuses them.

        Partitions without leader are left out.

        With these log ends only the positions of new groups, and of groups whose partition of __consumer_offsets has
        grown, are read. Without them the positions of every group are read.
        """
        partitions = commits.led if commits else []
        try:
            return {
                tp.partition: end
                for tp, end in self._source.ends(partitions, timeout=ask_seconds(len(partitions))).items()
            }
        except KafkaUnavailable as error:
            if not error.from_broker:
                raise
            return {}

    def _with_possible_commits(self, groups: Iterable[str], ends: dict[int, int], total: int) -> list[str]:
        grown = {partition for partition, end in ends.items() if self._commit_ends.get(partition) != end}
        return [
            name
            for name in groups
            if not ends or name not in self._positions or commits_partition(name, total) in grown
        ]

    def _read_positions(self, group_names: Collection[str]) -> dict[str, dict[tuple[str, int], int]]:
        # A group has as many positions as its topics have partitions: a request about it takes longer than a listing.
        seconds = ask_seconds(len(group_names) * _LISTED_IN_ONE)
        columns = self._source.position_columns(group_names, require_stable=False, timeout=seconds)
        positions: dict[str, dict[tuple[str, int], int]] = {name: {} for name in group_names}
        for group, topic, partition, position in zip(*columns, strict=True):
            positions[group][topic, partition] = position
        return positions

    def _write_states(
        self, rows: RecorderRows, groups: dict[str, GroupInfo], whole: bool, unlisted: Iterable[str]
    ) -> None:
        states = {name: (len(info.members), info.state) for name, info in groups.items()}
        for name, (members, state) in self._states.differing(states, whole).items():
            rows.add(Kind.GROUP, group=name, members=members, state=state)
        for name in self._states.gone([*states, *unlisted]):
            rows.add(Kind.GROUP, group=name, state="Gone")
            self._positions.forget(name)

    def _write_positions(
        self, rows: RecorderRows, positions: dict[str, dict[tuple[str, int], int]], whole: bool
    ) -> None:
        differing = [
            (name, *tp, position)
            for name, group_positions in positions.items()
            for tp, position in self._positions.differing(name, group_positions, whole).items()
        ]
        if differing:
            group, topic, partition, position = (list(column) for column in zip(*differing, strict=True))
            rows.extend(Kind.POSITION, group=group, topic=topic, partition=partition, position=position)
