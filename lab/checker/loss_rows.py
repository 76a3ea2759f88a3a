"""Which records of an unreadable source reached the target, and whether the loss list names all others.

MirrorMaker 2 mirrors a partition in order and never leaves a record out, so that of n records with one content and
m < n copies on the target it is the first m that may have been mirrored, and the first one that surely was.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from lab.checker.positions import Log
from lab.workload.ground_truth import COMMITTED, TruthRecord

Place = tuple[str, int]


class LossRow(NamedTuple):
    """What the evidence says is lost of one partition; `to` exclusive, None for nothing certain and for no bound."""

    from_offset: int
    certain_to: int | None
    possible_to: int | None

    def may_lack(self, offset: int) -> bool:
        """Say whether a record may be missing by this row."""
        return self.from_offset <= offset and (self.possible_to is None or offset < self.possible_to)

    def surely_lacks(self, offset: int) -> bool:
        """Say whether a record must be missing by this row."""
        return self.certain_to is not None and self.from_offset <= offset < self.certain_to


def loss_rows(listed: Iterable[Mapping[str, Any]]) -> dict[Place, list[LossRow]]:
    """Return the evidence's rows of loss by source partition."""
    rows: dict[Place, list[LossRow]] = defaultdict(list)
    for row in listed:
        certain, possible = (None if row[name] is None else int(row[name]) for name in ("certain_to", "possible_to"))
        rows[row["topic"], int(row["partition"])].append(LossRow(int(row["from_offset"]), certain, possible))
    return dict(rows)


def mirrored_at_most(known: Log, target: Iterable[int]) -> set[int]:
    """Return source offsets that may have been mirrored: of equal contents the first, as many as there are copies."""
    copies = Counter(target)
    reached = set()
    for offset, digest in known:
        if copies[digest] > 0:
            copies[digest] -= 1
            reached.add(offset)
    return reached


def surely_mirrored(known: Log, target: Iterable[int]) -> set[int]:
    """Return the source offsets that must have been mirrored: the first one of every content that the target holds."""
    there = set(target)
    first: dict[int, int] = {}
    for offset, digest in known:
        first.setdefault(digest, offset)
    return {offset for digest, offset in first.items() if digest in there}


def unconfirmed_records(history: Sequence[TruthRecord], target: Log) -> list[TruthRecord]:
    """Return records that the source kept and mirrored without an acknowledgement: its answer died with it.

    They stand in gaps of what was acknowledged: on the target, right behind the record before them.
    """
    taken = {record.offset: record.digest for record in history}
    places: dict[int, list[int]] = defaultdict(list)
    for record in history:
        places[record.digest].append(record.offset)
    found: list[TruthRecord] = []
    last: int | None = -1
    for _, digest in target:
        last = _source_offset(digest, last, places, taken)
        if last is not None and last not in taken:
            taken[last] = digest
            places[digest].append(last)
            found.append(TruthRecord(last, digest, None, 0, False, 0))
    return sorted(found)


def _source_offset(
    digest: int, before: int | None, places: Mapping[int, list[int]], taken: Mapping[int, int]
) -> int | None:
    """Where a record of the target stood on the source, as far as its content or the record before it tells."""
    known = places.get(digest, [])
    if len(known) == 1:
        return known[0]
    if before is None:
        return None
    following = before + 1
    fits = taken.get(following) == digest if known else following not in taken
    return following if fits else None


def unlisted_records(
    acknowledged: Iterable[TruthRecord], mirrored: set[int], rows: Sequence[LossRow]
) -> list[TruthRecord]:
    """Return the acknowledged records that are neither on the target nor listed as lost."""
    return [
        record
        for record in acknowledged
        if record.offset not in mirrored and not any(row.may_lack(record.offset) for row in rows)
    ]


def wrongly_lost(known: Log, surely: set[int], rows: Sequence[LossRow]) -> list[int]:
    """Return the source offsets of records that are on the target although they are listed as certainly lost."""
    return [offset for offset, _ in known if offset in surely and any(row.surely_lacks(offset) for row in rows)]


class StrandedComparison(NamedTuple):
    """One partition's stranded records by the list and by the truth, as source offsets.

    Args:
        unlisted: acknowledged, on the source, not on the target, and not on the list.
        mirrored: on the list, and on the target.
        unheld: on the list, and not on the source as listed.
        unconfirmed: rightly on the list, though nobody was told that they are kept.
    """

    unlisted: list[int]
    mirrored: list[int]
    unheld: list[int]
    unconfirmed: list[int]


def compare_stranded(
    acknowledged: Iterable[TruthRecord], source: Log, mirrored: set[int], listed: Mapping[int, int]
) -> StrandedComparison:
    """Hold a list of stranded records against the truth, both ways.

    Args:
        acknowledged: records that must not get lost.
        source: what the returned source holds.
        mirrored: source offsets that are on the target.
        listed: the list, digest by source offset.
    """
    held = dict(source)
    due = {
        record.offset
        for record in acknowledged
        if held.get(record.offset) == record.digest and record.offset not in mirrored
    }
    unheld = [offset for offset, digest in listed.items() if held.get(offset) != digest]
    rightly = set(listed) - set(unheld) - mirrored
    return StrandedComparison(
        sorted(due - rightly), sorted(mirrored & set(listed)), sorted(unheld), sorted(rightly - due)
    )


def acknowledged_of(history: Iterable[TruthRecord]) -> list[TruthRecord]:
    """Return the records of a history that must not get lost."""
    return [record for record in history if record.state == COMMITTED]
