"""The chain of the flight recorder's signed samples: what a statement says, and which files are links.

Every sample has a number; its statement names the digest of the statement before. A merged file has one statement for
all of its samples.

Invariants
1. Numbers grow by one for ever. A removed, repeated or foreign sample therefore breaks the chain or stands beside it.
2. The chain is followed from the newest sample to the oldest, and ends where a sample is missing: a newer sample holds
   only changes, and what an older one says may have changed in the missing one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from kafka_dr.domain.canonical_json import canonical_json, digest_of, read_json
from kafka_dr.domain.plain_text import count_of

#: What is signed names its purpose, so that a signature for another purpose never counts here.
_PURPOSE = "samples of the flight recorder"

#: Cluster ids of source and target; None for an unknown one.
ClusterIds = tuple[str | None, str | None]


@dataclass(frozen=True)
class SampleStatement:
    """What the flight recorder signs about the samples of one file.

    Attributes:
        flow: `source->target`.
        ids: cluster ids of source and target; None for a cluster that did not answer.
        first, last: numbers of the file's first and last sample; equal unless the file was merged.
        at: start of sample `last`, in milliseconds since 1970.
        rows: SHA-256 of the file's rows.
        before: digest of the statement about sample `first - 1`; None for the first sample of all.
        dropped: samples that were taken before sample `first` and given up, because the archive was away.
        link: digest of the statement about sample `last`; None if this is that statement.
    """

    flow: str
    ids: ClusterIds
    first: int
    last: int
    at: int
    rows: str
    before: str | None
    dropped: int = 0
    link: str | None = None

    @property
    def text(self) -> str:
        """The statement as canonical JSON, which is signed."""
        return canonical_json({"purpose": _PURPOSE} | asdict(self))

    @property
    def digest(self) -> str:
        """SHA-256 by which the next statement names sample `last`."""
        return self.link or digest_of({"purpose": _PURPOSE} | asdict(self))

    @property
    def hour(self) -> str:
        """The hour whose folder holds the file, such as `2026-11-25/09`, in UTC."""
        return f"{datetime.fromtimestamp(self.at / 1000, UTC):%Y-%m-%d/%H}"

    @property
    def noted(self) -> str:
        """The JSON by which the journal notes sample `last`."""
        return canonical_json({"sequence": self.last, "digest": self.digest})

    @classmethod
    def parse(cls, text: str) -> SampleStatement | None:
        """Return the statement of a signed text; None for another text."""
        fields = _json_object(text)
        if fields.pop("purpose", None) != _PURPOSE or fields.keys() != cls.__dataclass_fields__.keys():
            return None
        return cls(**fields | {"ids": tuple(fields["ids"])})


def parse_note(text: str | None) -> tuple[int, str] | None:
    """Return number and digest of the sample that the journal notes; None without a note."""
    note = _json_object(text or "")
    sequence, digest = note.get("sequence"), note.get("digest")
    return (sequence, digest) if isinstance(sequence, int) and isinstance(digest, str) else None


def _json_object(text: str) -> dict[str, Any]:
    try:
        value = read_json(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


class SampleChain:
    """Follows the chain through the hours of an archive, newest hour first; remembers what does not count, and why.

    Attributes:
        newest: the statement with the newest sample; None if no file had a valid statement.
        ids: cluster ids of source and target, as far as the links state them.
        ended: whether a sample is missing; no older file counts.
    """

    def __init__(self) -> None:
        self.newest: SampleStatement | None = None
        self.ended = False
        self._next: tuple[int, str | None] = (0, None)
        self.ids: ClusterIds = (None, None)
        self._ignored: dict[str, list[str]] = defaultdict(list)
        self._dropped = 0
        self._end = ""

    def ignore(self, name: str, reason: str) -> None:
        """Remember that a file does not count."""
        self._ignored[reason].append(name)

    def follow(self, statements: Mapping[str, SampleStatement]) -> list[str]:
        """Return which files of an hour continue the chain, oldest first.

        Args:
            statements: the valid statements of the hour's files, by name of the file.
        """
        left, chosen = dict(statements), list[str]()
        while (name := self._continuing(left)) is not None:
            chosen.insert(0, name)
            self._take(left.pop(name))
        for name, statement in sorted(left.items()):
            if self.newest and statement.last > self.newest.last:
                self.ignore(name, "its number is higher than the newest sample's, though it is older")
            elif statement.last > self._next[0]:
                self.ignore(name, "another file holds the samples of these numbers")
        older = [statement for statement in left.values() if statement.last <= self._next[0]]
        if older:
            self._end_above(max(older, key=lambda statement: statement.last))
        return chosen

    def problems(self) -> list[str]:
        """Return what does not count, and what is missing, as sentences without full stop."""
        ignored = [
            f"{count_of(len(names), 'file')} of the recorder's archive not counted, the first is {names[0]}: {reason}"
            for reason, names in sorted(self._ignored.items())
        ]
        dropped = f"the recorder gave up {count_of(self._dropped, 'sample')}, because its archive was away"
        return [*ignored, *([self._end] if self._end else []), *([dropped] if self._dropped else [])]

    def _continuing(self, left: Mapping[str, SampleStatement]) -> str | None:
        """Return the file with the next older samples; of several the one with most samples. None without one."""
        if self.ended:
            return None
        if self.newest is None:
            return max(left, key=lambda name: (left[name].at, left[name].last, -left[name].first), default=None)
        fitting = [name for name, one in left.items() if (one.last, one.digest) == self._next and self._same(one)]
        return min(fitting, key=lambda name: left[name].first, default=None)

    def _same(self, statement: SampleStatement) -> bool:
        """Whether a statement is about the clusters of the newer samples."""
        return all(None in pair or pair[0] == pair[1] for pair in zip(self.ids, statement.ids, strict=True))

    def _take(self, statement: SampleStatement) -> None:
        self.newest = self.newest or statement
        self._next = statement.first - 1, statement.before
        self.ids = (self.ids[0] or statement.ids[0], self.ids[1] or statement.ids[1])
        self._dropped += statement.dropped

    def _end_above(self, older: SampleStatement) -> None:
        """End the chain, because the newest older statement is not the one that the oldest link names."""
        self.ended, number = True, self._next[0]
        self._end = (
            f"sample {number} of the recorder is missing in its archive, or is not the one that sample {number + 1}"
            " names: older samples do not count"
            if self._same(older)
            else f"samples up to {older.last} of the recorder are about other clusters: they do not count"
        )


def missing_newest(noted: tuple[int, str] | None, newest: SampleStatement | None) -> str | None:
    """Return what is missing above the newest sample, by the journal's note, as a sentence; None if nothing is.

    Args:
        noted: number and digest of the newest sample that the journal notes, read before the archive; None without one.
        newest: the newest statement of the archive; None without one.
    """
    last = newest.last if newest else 0
    if noted is None:
        return None
    if noted[0] > last:
        return (
            f"the journal notes sample {noted[0]} of the recorder, and the newest one in the archive is"
            f" {last or 'none'}: newer samples were removed"
        )
    if newest is not None and noted[0] == last and noted[1] != newest.digest:
        return f"sample {last} of the recorder's archive is not the one that the journal notes"
    return None
