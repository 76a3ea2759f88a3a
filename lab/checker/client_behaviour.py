"""What clients and the fence did: acknowledgement times, who consumed what, positions that must (not) exist."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from lab.checker.findings import Finding, first_examples
from lab.checker.positions import Alignment, Log
from lab.checker.readers import ClusterReader
from lab.workload.ground_truth import Acknowledgement

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
    group: str,
    source: Positions,
    target: Positions,
    there: Callable[[Place], Place],
    local: Callable[[Place], Place] | None = None,
    before: Positions | None = None,
) -> list[Finding]:
    """Return a finding for every committed source position without a target position.

    Args:
        group: whose positions these are.
        source: committed positions on the source.
        target: committed positions on the target before any consumer started there.
        there: source place to its mirrored place.
        local: source place to the one that clients write on the target, where the group must begin at 0, too; None
            where that is the mirrored one.
        before: the group's positions on the target before it was moved, which may stay.
    """
    called_for, before = set(map(there, source)), before or {}
    findings = [
        Finding("group missing", f"source position {position} has no position on the target", group, *there(place))
        for place, position in source.items()
        if there(place) not in target
    ]
    begun = {local(place) for place in source} - called_for if local else set()
    return findings + [
        Finding(
            "local position", f"must stand at 0 on the local topic, found {target.get(place, 'nothing')}", group, *place
        )
        for place in sorted(begun)
        if target.get(place) not in (0, before.get(place, 0))
    ]


def uncalled_positions(
    group: str,
    source: Positions,
    target: Positions,
    there: Callable[[Place], Place],
    local: Callable[[Place], Place] | None = None,
    before: Positions | None = None,
) -> list[Finding]:
    """Return a finding per target position of a group where it never committed; arguments as of `absent_positions`."""
    called_for, before = set(map(there, source)), before or {}
    begun = {local(place)[0] for place in source} if local else set()
    return [
        Finding("never committed", f"has position {position} although it never committed here", group, *place, position)
        for place, position in target.items()
        if place not in called_for and not (place[0] in begun and position == 0) and before.get(place) != position
    ]


def misplaced_positions(
    group: str,
    at: Place,
    alignment: Alignment,
    position: int,
    target_position: int,
    start: int = 0,
    unread: str | None = None,
    known: int | None = None,
    bound: int | None = 0,
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
        known: the source position by which records read again are counted; the committed one by default.
        bound: how many may be read again, None for any number. With 0 the position must be the exact one: then copies
            of unread records count as well.
    """
    standing = alignment.standing(position, target_position)
    belongs = f"source position {position} belongs at {standing.expected}, found {target_position}"
    wrong = []
    if standing.skipped:
        text = (
            f"{belongs}: {len(standing.skipped)} unread records skipped, first is source offset {standing.skipped[0]}"
        )
        wrong.append(("skipped", text))
    elif target_position > alignment.boundary:
        wrong.append(("skipped", f"{belongs}: beyond the boundary {alignment.boundary}"))
    wrong += _read_again(alignment, position if known is None else known, target_position, bound)
    if target_position < start:
        wrong.append(("out of range", f"found {target_position}: below the log start {start}"))
    return [Finding(check, text, group, *at, target_position, unread) for check, text in wrong]


def _read_again(alignment: Alignment, position: int, target_position: int, bound: int | None) -> list[tuple[str, str]]:
    standing = alignment.standing(position, target_position)
    rereads = alignment.consumed_again(position, target_position) if bound else standing.rereads
    if bound is None or rereads <= bound:
        return []
    announced = f", at most {bound} were announced" if bound else ""
    text = (
        f"source position {position} belongs at {standing.expected}, found {target_position}: {rereads} records would"
        f" be read again{announced}"
    )
    return [("bound" if bound else "not exact", text)]


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


def unlike_topics(wanted: Mapping[str, int], there: Mapping[str, int]) -> list[Finding]:
    """Return a finding for every topic that has not as many partitions on the target as on the source."""
    return [
        Finding("topic", f"has {there.get(name, 'no')} partitions on the target, {count} on the source", topic=name)
        for name, count in wanted.items()
        if there.get(name) != count
    ]


def closed_target(target: ClusterReader, topics: Collection[str], mirrored: Collection[str]) -> list[Finding]:
    """Try to write as a producer: findings where a topic of the target refuses, or a mirrored copy accepts.

    Args:
        target: the cluster that clients have gone to.
        topics: what clients write there.
        mirrored: copies of what they wrote on the source, where these have names of their own.
    """
    told, open_copies = target.try_writes(topics), target.try_writes(mirrored)
    closed = [f"{topic} ({told.get(topic, 'no answer')})" for topic in topics if told.get(topic) != ""]
    findings = [
        Finding("mirror open", "accepts a producer's write", topic=t) for t, error in open_copies.items() if not error
    ]
    if closed:
        findings.append(Finding("target closed", f"does not accept a producer's write: {first_examples(closed)}"))
    return findings


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
