"""What clients and the fence did: acknowledgements in time, who consumed what, positions that must or must not
exist.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from lab.judge.findings import Finding
from lab.judge.positions import Alignment, Log
from lab.workload.truth import Acknowledgement

Place = tuple[str, int]
Positions = Mapping[Place, int]


class Consumption(NamedTuple):
    """What one group did on one partition, on both clusters.

    Args:
        start: the source position from which its consumer started.
        on_source: offsets it was given on the source.
        on_target: offsets it was given on the target's mirrored partition.
        reached: the position it had reached on the target's mirrored partition.
    """

    group: str
    topic: str
    partition: int
    start: int
    on_source: Sequence[int]
    on_target: Sequence[int]
    reached: int


def late_acknowledgements(
    acknowledgements: Iterable[Acknowledgement], fenced_at: int, event: str = "the fence was proven", grace: int = 0
) -> list[Finding]:
    """Return a finding for every record that the source acknowledged after its fence was proven.

    Args:
        acknowledgements: with the moment when the producer was told.
        fenced_at: moment of the event, likewise in milliseconds.
        event: what had happened by then.
        grace: milliseconds that an answer may take from the wire to the moment it is taken note of.
    """
    return [
        Finding(
            "fence", f"acknowledged by the source {a.at - fenced_at} ms after {event}",
            topic=a.topic, partition=a.partition, offset=a.offset, record=a.id,
        )
        for a in acknowledgements
        if a.at > fenced_at + grace
    ]  # fmt: skip


def beyond_cut_off(acknowledgements: Iterable[Acknowledgement], cut_off: Positions) -> list[Finding]:
    """Return a finding for every record that the source acknowledged at or above its cut-off."""
    return [
        Finding(
            "fence",
            "acknowledged by the source at or above the cut-off",
            topic=a.topic,
            partition=a.partition,
            offset=a.offset,
            record=a.id,
        )
        for a in acknowledgements
        if a.offset >= cut_off.get((a.topic, a.partition), a.offset + 1)
    ]


def absent_positions(
    group: str, source: Positions, target: Positions, remote: Callable[[str], str], local_topics: bool
) -> list[Finding]:
    """Return a finding for every committed source position without a target position.

    Args:
        group: whose positions these are.
        source: committed positions on the source.
        target: committed positions on the target before any consumer started there.
        remote: source topic name to its mirrored name.
        local_topics: whether the group must also stand at 0 on the topics that clients write on the target.
    """
    findings = []
    for (topic, partition), position in source.items():
        if (remote(topic), partition) not in target:
            text = f"source position {position} has no position on the target"
            findings.append(Finding("group missing", text, group, remote(topic), partition))
        if local_topics and target.get((topic, partition)) != 0:
            text = f"must stand at 0 on the local topic, found {target.get((topic, partition), 'nothing')}"
            findings.append(Finding("local position", text, group, topic, partition))
    return findings


def uncalled_positions(
    group: str, source: Positions, target: Positions, remote: Callable[[str], str], local_topics: bool
) -> list[Finding]:
    """Return a finding for every target position of a group on a partition where it never committed."""
    called_for = {(remote(topic), partition) for topic, partition in source}
    local = {topic for topic, _ in source} if local_topics else set()
    return [
        Finding(
            "never committed",
            f"has position {position} although it never committed here",
            group,
            topic,
            partition,
            position,
        )
        for (topic, partition), position in target.items()
        if (topic, partition) not in called_for and not (topic in local and position == 0)
    ]


def misplaced(
    group: str,
    at: Place,
    alignment: Alignment,
    position: int,
    target_position: int,
    start: int = 0,
    unread: str | None = None,
) -> list[Finding]:
    """Return findings where a target position skips records or makes the group read records again.

    Args:
        group: whose position it is.
        at: the mirrored topic's name on the target, and the partition.
        alignment: both logs of this partition.
        position: the committed source position.
        target_position: the committed target position.
        start: the target's log start.
        unread: id of the group's first unread record, to name it.
    """
    findings = skipping(group, at, alignment, position, target_position, unread)
    findings += reading_again(group, at, alignment, position, target_position, unread=unread)
    return findings + below_start(group, at, target_position, start, unread)


def skipping(
    group: str, at: Place, alignment: Alignment, position: int, target_position: int, unread: str | None = None
) -> list[Finding]:
    """Return a finding where a target position skips unread records, or what will be written above the boundary; as
    of `misplaced`.
    """
    standing = alignment.standing(position, target_position)
    belongs = f"source position {position} belongs at {standing.expected}, found {target_position}"
    if standing.skipped:
        text = (
            f"{belongs}: {len(standing.skipped)} unread records skipped, first is source offset {standing.skipped[0]}"
        )
    elif target_position > alignment.boundary:
        text = f"{belongs}: beyond the boundary {alignment.boundary}"
    else:
        return []
    return [Finding("skipped", text, group, *at, target_position, unread)]


def reading_again(
    group: str,
    at: Place,
    alignment: Alignment,
    position: int,
    target_position: int,
    bound: int | None = 0,
    unread: str | None = None,
) -> list[Finding]:
    """Return a finding where a group would read more records again than announced; as of `misplaced`, and a bound of
    None is none.

    Without a bound to use up, the position must be the exact one: then copies of unread records count as well.
    """
    standing = alignment.standing(position, target_position)
    rereads = alignment.consumed_again(position, target_position) if bound else standing.rereads
    if bound is None or rereads <= bound:
        return []
    announced = f", at most {bound} were announced" if bound else ""
    text = (
        f"source position {position} belongs at {standing.expected}, found {target_position}: {rereads} records would"
        f" be read again{announced}"
    )
    return [Finding("bound" if bound else "not exact", text, group, *at, target_position, unread)]


def below_start(group: str, at: Place, target_position: int, start: int, unread: str | None = None) -> list[Finding]:
    """Return a finding where a target position lies below the target's log start."""
    text = f"found {target_position}: below the log start {start}"
    return [Finding("out of range", text, group, *at, target_position, unread)] if target_position < start else []


def consumed_findings(
    consumption: Consumption, live: Log, target: Log, bound: int
) -> tuple[list[Finding], dict[str, int]]:
    """Judge by contents whether a group was given every record, and which ones twice.

    Args:
        consumption: what the group was given.
        live: the source's log as a reader of committed records gets it.
        target: the target's log below the boundary.
        bound: re-reads that the plan announced for one position.
    """
    read_there = dict(target)
    read_here = dict(live)
    given = Counter(read_here[offset] for offset in consumption.on_source if offset in read_here)
    given.update(read_there[offset] for offset in consumption.on_target if offset in read_there)
    # MirrorMaker 2's own repeats are no re-reads of the group.
    copies = Counter(read_there.values())
    due = _due(consumption, live, target)
    skipped = [offset for offset, digest in due if not _take(given, digest)]
    mirrored_twice = {digest for digest, count in copies.items() if count > 1}
    again = sum(count for digest, count in given.items() if digest not in mirrored_twice and digest in copies)
    findings = [
        Finding(
            "never delivered",
            "consumed on neither cluster",
            consumption.group,
            consumption.topic,
            consumption.partition,
            offset,
        )
        for offset in skipped
    ]
    if again > bound:
        text = f"was given {again} records again, the plan announced at most {bound}"
        findings.append(Finding("read again", text, consumption.group, consumption.topic, consumption.partition))
    return findings, {"records_consumed": len(due) - len(skipped), "records_read_again": again}


def unread_new_records(group: str, at: Place, new: Log, consumed: Iterable[int], reached: int) -> list[Finding]:
    """Return a finding for every record written on the target that a group went past without being given it."""
    seen = set(consumed)
    return [
        Finding("never delivered", "written on the target and never consumed", group, *at, offset)
        for offset, _ in new
        if offset < reached and offset not in seen
    ]


def _due(consumption: Consumption, live: Log, target: Log) -> Log:
    # What the group has not reached on the target yet is not skipped, only still to come.
    ahead = Counter(digest for offset, digest in target if offset >= consumption.reached)
    given_here = set(consumption.on_source)
    first = bisect_left(live, (consumption.start, -(2**63)))
    due = []
    for offset, digest in reversed(live[first:]):
        if offset not in given_here and ahead[digest] > 0:
            ahead[digest] -= 1
        else:
            due.append((offset, digest))
    return due[::-1]


def _take(given: Counter[int], digest: int) -> bool:
    if given[digest] <= 0:
        return False
    given[digest] -= 1
    return True
