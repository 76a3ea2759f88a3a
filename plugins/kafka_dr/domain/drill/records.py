"""A drill's records: each has a number, by which it is looked for on the other cluster."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass

#: What one record takes in a log, in bytes, with its overhead.
RECORD_BYTES = 250
_PADDING = "." * 120


def record_value(drill: str, number: int) -> bytes:
    """Return the value of a drill's record."""
    return json.dumps({"drill": drill, "number": number, "padding": _PADDING}).encode()


def record_number(value: bytes | None) -> int | None:
    """Return the number in a record's value; None if it is no record of a drill."""
    try:
        number = json.loads(value or b"")["number"]
    except (ValueError, KeyError, TypeError):
        return None
    return number if isinstance(number, int) else None


@dataclass(frozen=True)
class RecordCount:
    """What became of a drill's records.

    Attributes:
        written: acknowledged by a cluster, before the reading began.
        present: of these, on the cluster where clients are.
        missing: of these, not there.
        repeated: there more than once.
        examples: the first missing numbers.
    """

    written: int
    present: int
    missing: int
    repeated: int
    examples: tuple[int, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """Return the counts as plain data."""
        return asdict(self)


def compare_numbers(written: Iterable[int], read: Iterable[int | None]) -> RecordCount:
    """Compare the numbers of acknowledged records with those that were read; other records do not count."""
    wanted, counts = set(written), Counter(number for number in read if number is not None)
    missing = sorted(wanted - counts.keys())
    repeated = sum(1 for count in counts.values() if count > 1)
    return RecordCount(len(wanted), len(wanted) - len(missing), len(missing), repeated, tuple(missing[:20]))


def production_differences(before: dict[str, dict[str, str]], after: dict[str, dict[str, str]]) -> list[str]:
    """Return in sentences what of production differs before and after a drill.

    Args:
        before, after: kind of thing -> its name -> its state, of production alone.
    """
    found = []
    for kind in sorted({*before, *after}):
        then, now = before.get(kind, {}), after.get(kind, {})
        found += [f"{kind}: {name} is gone" for name in sorted(then.keys() - now.keys())]
        found += [f"{kind}: {name} is new" for name in sorted(now.keys() - then.keys())]
        found += [
            f"{kind}: {name} was {then[name]}, is {now[name]}"
            for name in sorted(then.keys() & now.keys())
            if then[name] != now[name]
        ]
    return found
