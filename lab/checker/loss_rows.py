"""Compute which records of an unreadable source reached the target, and whether loss rows list the rest.

MirrorMaker 2 mirrors a partition in order and skips no record. So if several source records have the same content and
the target has m copies of it, the first record was certainly mirrored, and no record after the first m. The others of
the first m may have been mirrored: some copies may be MirrorMaker 2's repeats.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from lab.checker.positions import Log
from lab.workload.ground_truth import COMMITTED, TruthRecord

Place = tuple[str, int]


class LossRow(NamedTuple):
    """One row of the evidence's field `loss`: the range of source offsets of one partition that may be lost.

    Args:
        from_offset: the first offset that may be lost.
        certain_to: end (exclusive) of the certainly lost range; None if nothing is certainly lost.
        possible_to: end (exclusive) of the possibly lost range; None if unbounded.
    """

    from_offset: int
    certain_to: int | None
    possible_to: int | None

    def may_lack(self, offset: int) -> bool:
        """Whether this row lists the record at a source offset as lost, certainly or possibly."""
        return self.from_offset <= offset and (self.possible_to is None or offset < self.possible_to)

    def surely_lacks(self, offset: int) -> bool:
        """Whether this row lists the record at a source offset as certainly lost."""
        return self.certain_to is not None and self.from_offset <= offset < self.certain_to


def loss_rows(listed: Iterable[Mapping[str, Any]]) -> dict[Place, list[LossRow]]:
    """Return the loss rows `listed` in an evidence document, by (topic, partition) on the source."""
    rows: dict[Place, list[LossRow]] = defaultdict(list)
    for row in listed:
        certain, possible = (None if row[name] is None else int(row[name]) for name in ("certain_to", "possible_to"))
        rows[row["topic"], int(row["partition"])].append(LossRow(int(row["from_offset"]), certain, possible))
    return dict(rows)


def mirrored_at_most(known: Log, target: Iterable[int]) -> set[int]:
    """Return the source offsets that may have been mirrored: if a content has m copies, its first m records.

    Args:
        known: (offset, digest) of the source's records, in offset order.
        target: digests of the target's records.
    """
    copies = Counter(target)
    mirrored = set()
    for offset, digest in known:
        if copies[digest] > 0:
            copies[digest] -= 1
            mirrored.add(offset)
    return mirrored


def surely_mirrored(known: Log, target: Iterable[int]) -> set[int]:
    """Return the source offsets that were certainly mirrored: of each content on the target, the first record.

    Args:
        known: (offset, digest) of the source's records, in offset order.
        target: digests of the target's records.
    """
    target_digests = set(target)
    first: dict[int, int] = {}
    for offset, digest in known:
        first.setdefault(digest, offset)
    return {offset for digest, offset in first.items() if digest in target_digests}


def unconfirmed_records(history: Sequence[TruthRecord], target: Log) -> list[TruthRecord]:
    """Return the records on the target whose acknowledgement no producer logged, because the source was lost.

    On the source such records fill gaps between acknowledged offsets. On the target they follow the copy of the record
    before the gap: their source offsets, which are returned, are counted from that record.

    Args:
        history: the partition's records that clients logged, with source offsets.
        target: (offset, digest) of the target's records, in offset order.
    """
    digests = {record.offset: record.digest for record in history}
    offsets_by_digest: dict[int, list[int]] = defaultdict(list)
    for record in history:
        offsets_by_digest[record.digest].append(record.offset)
    unconfirmed: list[TruthRecord] = []
    last: int | None = -1
    for _, digest in target:
        last = _source_offset(digest, last, offsets_by_digest, digests)
        if last is not None and last not in digests:
            digests[last] = digest
            offsets_by_digest[digest].append(last)
            unconfirmed.append(TruthRecord(last, digest, None, 0, False, 0))
    return sorted(unconfirmed)


def _source_offset(
    digest: int, before: int | None, offsets_by_digest: Mapping[int, list[int]], digests: Mapping[int, int]
) -> int | None:
    """Return the source offset of a target record; None if it cannot be determined.

    If exactly one source record has this content, its offset is returned. Else the offset after `before` is returned:
    for a content of several source records, if the record at that offset has this content; for an unknown content, if
    no record is known at that offset.

    Args:
        digest: content digest of the target record.
        before: source offset of the preceding target record; None if it is unknown.
        offsets_by_digest: the known source records: offsets by content digest.
        digests: the same records: content digest by offset.
    """
    candidates = offsets_by_digest.get(digest, [])
    if len(candidates) == 1:
        return candidates[0]
    if before is None:
        return None
    following = before + 1
    matches = digests.get(following) == digest if candidates else following not in digests
    return following if matches else None


def unlisted_records(
    acknowledged: Iterable[TruthRecord], mirrored: set[int], rows: Sequence[LossRow]
) -> list[TruthRecord]:
    """Return the acknowledged records whose source offset is neither in `mirrored` nor in a loss row."""
    return [
        record
        for record in acknowledged
        if record.offset not in mirrored and not any(row.may_lack(record.offset) for row in rows)
    ]


def wrongly_lost(known: Log, surely: set[int], rows: Sequence[LossRow]) -> list[int]:
    """Return the source offsets that a loss row lists as certainly lost although `surely` has these offsets.

    Args:
        known: (offset, digest) of the source's records.
        surely: source offsets of the records that were certainly mirrored.
        rows: the partition's loss rows.
    """
    return [offset for offset, _ in known if offset in surely and any(row.surely_lacks(offset) for row in rows)]


class StrandedComparison(NamedTuple):
    """One partition's list of stranded records compared with the ground truth; all fields are source offsets.

    Args:
        unlisted: acknowledged records on the source that are neither on the target nor on the list.
        mirrored: listed records that are on the target.
        unheld: listed offsets at which the source has no record, or a record with another content.
        unconfirmed: rightly listed records for which no producer got an acknowledgement.
    """

    unlisted: list[int]
    mirrored: list[int]
    unheld: list[int]
    unconfirmed: list[int]


def compare_stranded(
    acknowledged: Iterable[TruthRecord], source: Log, mirrored: set[int], listed: Mapping[int, int]
) -> StrandedComparison:
    """Return which stranded records a partition's list lacks, and which records of the list are not stranded.

    Args:
        acknowledged: the partition's committed records.
        source: (offset, digest) of the returned cluster's log of this partition.
        mirrored: source offsets of the records on the target.
        listed: the list: digest by source offset.
    """
    source_digests = dict(source)
    stranded = {
        record.offset
        for record in acknowledged
        if source_digests.get(record.offset) == record.digest and record.offset not in mirrored
    }
    unheld = [offset for offset, digest in listed.items() if source_digests.get(offset) != digest]
    rightly_listed = set(listed) - set(unheld) - mirrored
    return StrandedComparison(
        sorted(stranded - rightly_listed),
        sorted(mirrored & set(listed)),
        sorted(unheld),
        sorted(rightly_listed - stranded),
    )


def acknowledged_of(history: Iterable[TruthRecord]) -> list[TruthRecord]:
    """Return the committed records of `history`, without aborted and deleted records."""
    return [record for record in history if record.state == COMMITTED]
