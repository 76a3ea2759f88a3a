"""The check of groups that go from copies to originals finds what is skipped, and counts what is repeated."""

from __future__ import annotations

import pytest

from lab.checker.records import Held
from lab.checker.topologies.global_view import Placing, check_placings, placing_of

COPIES, ORIGINALS = ("east.orders", 0), ("orders", 0)


def log(*ids: int) -> list[Held]:
    """Return a log of records by their ids."""
    return [Held(offset, number, 0, tombstone=False) for offset, number in enumerate(ids)]


@pytest.mark.parametrize(
    ("copies", "left", "placed", "expected"),
    [
        ((1, 2, 3), 3, 3, Placing(0, 0)),
        ((1, 2, 3), 3, 4, Placing(1, 0)),
        ((1, 2, 3), 3, 1, Placing(0, 2)),
        ((1, 2, 3, 2, 3), 3, 1, Placing(0, 0)),
        ((1, 2, 3, 2, 3), 3, 2, Placing(1, 0)),
        ((), 0, 0, Placing(0, 0)),
        ((1, 2, 3, 4, 5), 5, 5, Placing(0, 0)),
        ((1, 2, 3, 4, 5), 5, 2, Placing(0, 3)),
    ],
)
def test_a_placing_is_compared_with_the_first_unread_record(
    copies: tuple[int, ...], left: int, placed: int, expected: Placing
) -> None:
    """Originals without a copy are unread; of a repeated record the last copy counts."""
    assert placing_of(log(*copies), log(1, 2, 3, 4, 5), left, placed) == expected


def test_findings_name_group_and_place() -> None:
    """A skipped record, and a position that is not there, are findings; a repeated record is a figure."""
    logs, original = {COPIES: (log(1, 2), log(1, 2, 3))}, {COPIES: ORIGINALS}
    groups = {
        "good": ({COPIES: 2}, {ORIGINALS: 2}),
        "behind": ({COPIES: 2}, {ORIGINALS: 0}),
        "ahead": ({COPIES: 2}, {ORIGINALS: 3}),
        "gone": ({COPIES: 1}, {}),
    }
    findings, figures = check_placings(groups, logs, original)
    assert [str(finding.text).split()[0] for finding in findings] == ["ahead", "gone"]
    assert figures == {"positions": 3, "exact": 1, "repeated": 2}
