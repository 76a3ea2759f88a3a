"""Anchors: the journal's head, written outside its database, and what a journal lacks that an anchor has.

An anchor names the sequence number and the hash of one entry. As each entry carries the hash of the one before, a
journal that has this entry with this hash has all entries up to it, unchanged.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from kafka_dr.domain.canonical_json import canonical_json, read_json

#: A larger number is none that the journal has given.
_LARGEST = 2**30


@dataclass(frozen=True)
class Anchor:
    """One journal entry, as anchored.

    Attributes:
        generation: grows by 1 when a person accepts a journal that lacks anchored entries; anchors of older generations
            no longer count.
        sequence, hash: of the entry; 0 and an empty text if only the epoch is anchored.
        pair, epoch: a pair of clusters, and the newest epoch of its lease.
        procedure_id, step, kind: of the entry.
        at: when the entry was written, ISO 8601.
        accepted: who accepted the journal as it was, and why; empty for other anchors.
        signature: of the journal's key over all other fields; empty without a key.
    """

    generation: int
    sequence: int
    hash: str
    pair: str
    epoch: int
    procedure_id: str
    step: str
    kind: str
    at: str
    accepted: str = ""
    signature: str = ""

    def as_bytes(self) -> bytes:
        """Return the anchor as canonical JSON."""
        return canonical_json(asdict(self)).encode()

    @property
    def signed_bytes(self) -> bytes:
        """Return what the signature covers."""
        return canonical_json({name: value for name, value in asdict(self).items() if name != "signature"}).encode()


def read_anchor(value: Any) -> Anchor | None:
    """Return the anchor that a record's value, or a parsed JSON object, holds; None if it holds none."""
    try:
        document = read_json(value) if isinstance(value, str | bytes) else value
        anchor = Anchor(**document)
    except (TypeError, ValueError):
        return None
    numbers = (anchor.generation, anchor.sequence, anchor.epoch)
    whole = all(isinstance(number, int) and 0 <= number <= _LARGEST for number in numbers)
    texts = (anchor.hash, anchor.pair, anchor.procedure_id, anchor.step, anchor.kind, anchor.at, anchor.signature)
    return anchor if whole and all(isinstance(text, str) for text in texts) else None


@dataclass(frozen=True)
class Anchored:
    """The anchors of one pair of clusters that count.

    Attributes:
        generation: the newest generation on the clusters; 0 without anchors.
        by_place: place, such as a cluster's alias -> its anchors of this generation.
        newest_epoch: the newest anchored epoch, in whichever generation; 0 without anchors.
    """

    generation: int
    by_place: Mapping[str, Sequence[Anchor]]
    newest_epoch: int

    @property
    def sequences(self) -> set[int]:
        """Return the sequence numbers of all anchored entries."""
        return {anchor.sequence for anchors in self.by_place.values() for anchor in anchors if anchor.sequence}


def anchors_that_count(found: Mapping[str, Sequence[Anchor]], clusters: Collection[str]) -> Anchored:
    """Return the anchors of the newest generation, by place.

    Args:
        found: place -> its anchors.
        clusters: the places that are clusters. Others, such as the routing record, begin no generation, because more
            people may write there.
    """
    begun = [anchor.generation for place in clusters for anchor in found.get(place, ())]
    newest, epochs = max(begun, default=0), [anchor.epoch for anchors in found.values() for anchor in anchors]
    counting = {place: [a for a in anchors if a.generation == newest] for place, anchors in found.items()}
    return Anchored(newest, counting, max(epochs, default=0))


def contradicted_anchors(anchored: Anchored, head: int, hashes: Mapping[int, str]) -> list[str]:
    """Return what an intact chain of hashes lacks, or has otherwise, by its anchors; [] if it has all of them.

    Args:
        head: sequence number of the journal's newest entry; 0 for an empty journal.
        hashes: sequence number -> hash of the journal's entry, for the anchored sequence numbers that the journal has.
    """
    named: dict[tuple[int, str], set[str]] = {}
    texts = {}
    for place, anchors in anchored.by_place.items():
        for anchor in anchors:
            if anchor.sequence and hashes.get(anchor.sequence) != anchor.hash:
                named.setdefault((anchor.sequence, anchor.hash), set()).add(place)
                # Somebody else may have written the record: its texts are shortened, on one line.
                parts = (ascii(part[:100])[1:-1] for part in (anchor.kind, anchor.step, anchor.procedure_id))
                texts[anchor.sequence, anchor.hash] = "{} of {}, {}".format(*parts)
    return [
        f"entry {sequence} ({texts[sequence, digest]}) is {'missing' if sequence > head else 'another one'}, by the"
        f" anchor on {' and '.join(sorted(places))}"
        for (sequence, digest), places in sorted(named.items())
    ]
