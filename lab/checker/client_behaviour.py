"""Check clients and fences: times of acknowledgements, consumed records, positions that must or must not exist."""

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
    """What one group consumed of one partition, on both clusters.

    Args:
        start: the group's source position when its first consumer started on the source.
        on_source: offsets that the group consumed on the source.
        on_target: offsets that the group consumed on the target's mirrored partition.
        reached: the group's position on the target's mirrored partition.
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
    """Return a finding for every record that the source acknowledged after an event, such as its proven fence.

    Args:
        acknowledgements: each with the time at which its producer logged the answer, in milliseconds since 1970.
        fenced_at: time of the event, in milliseconds since 1970.
        event: the event's name in findings.
        grace: milliseconds by which the logged time may be later than the answer.
    """
    return [
        Finding(
            "fence", f"acknowledged by the source {record.at - fenced_at} ms after {event}",
            topic=record.topic, partition=record.partition, offset=record.offset, record=record.id,
        )
        for record in acknowledgements
        if record.at > fenced_at + grace
    ]  # fmt: skip


def beyond_cut_off(acknowledgements: Iterable[Acknowledgement], cut_off: Positions) -> list[Finding]:
    """Return a finding for every record that the source acknowledged at or above the partition's cut-off.

    Partitions without cut-off are left out.
    """
    return [
        Finding(
            "fence",
            "acknowledged by the source at or above the cut-off",
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            record=record.id,
        )
        for record in acknowledgements
        if record.offset >= cut_off.get((record.topic, record.partition), record.offset + 1)
    ]


def absent_positions(
    group: str,
    source: Positions,
    target: Positions,
    to_mirrored: Callable[[Place], Place],
    local: Callable[[Place], Place] | None = None,
    before: Positions | None = None,
) -> list[Finding]:
    """Return a finding for every partition with a source position, but without the required target position.

    Args:
        group: the group's id.
        source: the group's committed positions on the source.
        target: the group's committed positions on the target before any consumer started on the target.
        to_mirrored: maps a source partition to its mirrored partition on the target.
        local: under default naming: maps a source partition to the partition that clients write on the target, where
            the group must also have position 0. None under identity naming.
        before: the group's positions on the target before the client move. Where clients write, such a position is
            allowed instead of 0 if it is unchanged. None: the group had no position.
    """
    expected, before = set(map(to_mirrored, source)), before or {}
    findings = [
        Finding(
            "group missing", f"source position {position} has no position on the target", group, *to_mirrored(place)
        )
        for place, position in source.items()
        if to_mirrored(place) not in target
    ]
    local_partitions = {local(place) for place in source} - expected if local else set()
    return findings + [
        Finding(
            "local position",
            f"the position on the local topic must be 0, and is {target.get(place, 'nothing')}",
            group,
            *place,
        )
        for place in sorted(local_partitions)
        if target.get(place) not in (0, before.get(place, 0))
    ]


def uncalled_positions(
    group: str,
    source: Positions,
    target: Positions,
    to_mirrored: Callable[[Place], Place],
    local: Callable[[Place], Place] | None = None,
    before: Positions | None = None,
) -> list[Finding]:
    """Return a finding per target position on a partition for which the group has no source position.

    Under default naming position 0 is allowed on the topics that clients write on the target.

    Args:
        group: the group's id.
        source: the group's committed positions on the source.
        target: the group's committed positions on the target before any consumer started on the target.
        to_mirrored: maps a source partition to its mirrored partition on the target.
        local: under default naming: maps a source partition to the partition that clients write on the target. None
            under identity naming.
        before: the group's positions on the target before the client move. Such a position is allowed if it is
            unchanged. None: the group had no position.
    """
    expected, before = set(map(to_mirrored, source)), before or {}
    local_topics = {local(place)[0] for place in source} if local else set()
    return [
        Finding(
            "never committed",
            f"has position {position} although the group never committed this partition on the source",
            group,
            *place,
            position,
        )
        for place, position in target.items()
        if place not in expected and not (place[0] in local_topics and position == 0) and before.get(place) != position
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
    """Return findings if a target position skips records, causes too many re-reads, or is below the log start.

    Args:
        group: the group's id.
        at: the mirrored topic by its name on the target, and the partition.
        alignment: both logs of this partition.
        position: the committed source position.
        target_position: the committed target position.
        start: the target's log start.
        unread: id of the first skipped record, for the finding; None if the id is unknown.
        known: records below this source position count as re-reads; None: records below `position`.
        bound: allowed number of re-reads; None: any number. 0: the position must be exact; only then do MirrorMaker 2's
            repeats of unread records count as re-reads.
    """
    standing = alignment.standing(position, target_position)
    mismatch = (
        f"source position {position} corresponds to target position {standing.expected}, committed is {target_position}"
    )
    violations = []
    if standing.skipped:
        text = (
            f"{mismatch}: {len(standing.skipped)} unread records skipped, the first at source offset"
            f" {standing.skipped[0]}"
        )
        violations.append(("skipped", text))
    elif target_position > alignment.boundary:
        violations.append(("skipped", f"{mismatch}: beyond the boundary {alignment.boundary}"))
    violations += _read_again(alignment, position if known is None else known, target_position, bound)
    if target_position < start:
        violations.append(("out of range", f"target position {target_position} is below the log start {start}"))
    return [Finding(check, text, group, *at, target_position, unread) for check, text in violations]


def _read_again(alignment: Alignment, position: int, target_position: int, bound: int | None) -> list[tuple[str, str]]:
    standing = alignment.standing(position, target_position)
    rereads = alignment.consumed_again(position, target_position) if bound else standing.rereads
    if bound is None or rereads <= bound:
        return []
    announced = f", the plan announced at most {bound}" if bound else ""
    text = (
        f"source position {position} corresponds to target position {standing.expected}, committed is"
        f" {target_position}: {rereads} records would"
        f" be read again{announced}"
    )
    return [("bound" if bound else "not exact", text)]


def consumed_findings(
    consumption: Consumption, live: Log, target: Log, bound: int
) -> tuple[list[Finding], dict[str, int]]:
    """Return findings if a group did not consume every record of one partition, or re-read more than the bound.

    Args:
        consumption: the offsets that the group consumed on both clusters.
        live: the source's log as a read_committed consumer gets it.
        target: the target's log below the boundary.
        bound: the maximum of re-reads that the plan announced for one position.

    Returns:
        Findings, and the figures `records_consumed` and `records_read_again`.
    """
    target_digests = dict(target)
    source_digests = dict(live)
    consumed = Counter(source_digests[offset] for offset in consumption.on_source if offset in source_digests)
    consumed.update(target_digests[offset] for offset in consumption.on_target if offset in target_digests)
    # A content that the target has several times may be a repeat of MirrorMaker 2 and does not count as a re-read.
    copies = Counter(target_digests.values())
    expected = _expected_records(consumption, live, target)
    skipped = [offset for offset, digest in expected if not _consume_one(consumed, digest)]
    repeated = {digest for digest, count in copies.items() if count > 1}
    rereads = sum(count for digest, count in consumed.items() if digest not in repeated and digest in copies)
    findings = [
        Finding(
            "never delivered",
            "not consumed on either cluster",
            consumption.group,
            consumption.topic,
            consumption.partition,
            offset,
        )
        for offset in skipped
    ]
    if rereads > bound:
        text = f"received {rereads} records again, the plan announced at most {bound}"
        findings.append(Finding("read again", text, consumption.group, consumption.topic, consumption.partition))
    return findings, {"records_consumed": len(expected) - len(skipped), "records_read_again": rereads}


def unread_new_records(group: str, at: Place, new: Log, consumed: Iterable[int], reached: int) -> list[Finding]:
    """Return a finding per record in `new` below the group's target position that the group did not consume.

    Args:
        group: the group's id.
        at: the target partition.
        new: (offset, digest) of records that clients wrote on the target.
        consumed: offsets that the group consumed.
        reached: the group's position; records at or above this position need not be consumed.
    """
    consumed_offsets = set(consumed)
    return [
        Finding("never delivered", "written on the target and never consumed", group, *at, offset)
        for offset, _ in new
        if offset < reached and offset not in consumed_offsets
    ]


def unlike_topics(expected: Mapping[str, int], actual: Mapping[str, int]) -> list[Finding]:
    """Return a finding for every topic whose partition count on the target (`actual`) differs from `expected`."""
    return [
        Finding("topic", f"has {actual.get(name, 'no')} partitions on the target, {count} on the source", topic=name)
        for name, count in expected.items()
        if actual.get(name) != count
    ]


def closed_target(target: ClusterReader, topics: Collection[str], mirrored: Collection[str]) -> list[Finding]:
    """Produce a record to each topic; return findings for `topics` that refuse, and for `mirrored` that accept.

    Args:
        target: reader of the cluster that clients moved to.
        topics: topics that clients write on the target: these must accept the record.
        mirrored: mirrored topics with a prefix, which must refuse the record; empty under identity naming.
    """
    answers, open_copies = target.try_writes(topics), target.try_writes(mirrored)
    closed = [f"{topic} ({answers.get(topic, 'no answer')})" for topic in topics if answers.get(topic) != ""]
    findings = [
        Finding("mirror open", "accepts a producer's write", topic=t) for t, error in open_copies.items() if not error
    ]
    if closed:
        findings.append(Finding("target closed", f"does not accept a producer's write: {first_examples(closed)}"))
    return findings


def _expected_records(consumption: Consumption, live: Log, target: Log) -> Log:
    # Records at or above the group's target position need not be consumed yet.
    ahead = Counter(digest for offset, digest in target if offset >= consumption.reached)
    consumed_on_source = set(consumption.on_source)
    first = bisect_left(live, (consumption.start, -(2**63)))
    expected = []
    for offset, digest in reversed(live[first:]):
        if offset not in consumed_on_source and ahead[digest] > 0:
            ahead[digest] -= 1
        else:
            expected.append((offset, digest))
    return expected[::-1]


def _consume_one(consumed: Counter[int], digest: int) -> bool:
    if consumed[digest] <= 0:
        return False
    consumed[digest] -= 1
    return True
