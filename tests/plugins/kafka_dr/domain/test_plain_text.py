"""Numbers, times and figures as a person reads them."""

from __future__ import annotations

from typing import Any

import pytest
from kafka_dr.domain.plain_text import (
    figure_lines,
    first_of,
    format_age,
    format_clock,
    format_duration,
    format_moment,
    format_number,
    shorten_text,
    time_of_day,
    visible_text,
)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-5, "just now"),
        (0.4, "just now"),
        (40.9, "40 s ago"),
        (100, "1 min ago"),
        (5999, "99 min ago"),
        (7200, "2 h ago"),
        (172_800, "2 days ago"),
    ],
)
def test_an_age_in_its_largest_unit(seconds: float, said: str) -> None:
    """Rounded down; a clock that is ahead by a little makes no negative age."""
    assert format_age(seconds) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 s"),
        (0.0041, "0.004 s"),
        (0.1, "0.1 s"),
        (43.14, "43.1 s"),
        (90.0, "90 s"),
        (1, "1 s"),
        (99.94, "99.9 s"),
        (99.96, "1 min 40 s"),
        (724, "12 min 04 s"),
        (3599.6, "1 h 00 min"),
        (7500, "2 h 05 min"),
    ],
)
def test_durations_are_said_in_their_own_size(seconds: float, said: str) -> None:
    """Milliseconds to hours, and no 60 seconds or minutes."""
    assert format_duration(seconds) == said


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0, "0:00"), (-5, "0:00"), (59.9, "0:59"), (103, "1:43"), (600, "10:00"), (3723, "1:02:03")]
)
def test_the_clock_counts_whole_seconds(seconds: float, shown: str) -> None:
    """As a stop watch: never rounded up, never negative."""
    assert format_clock(seconds) == shown


@pytest.mark.parametrize(
    ("value", "said"),
    [(0, "0"), (1234567, "1,234,567"), (None, "unknown"), ("not reached", "not reached"), (True, "True")],
)
def test_numbers_have_their_thousands_apart(value: Any, said: str) -> None:
    """What nobody knows is called unknown, never 0 or None."""
    assert format_number(value) == said


def test_times_are_utc_whatever_zone_they_came_in() -> None:
    """Text that is no time, or has no zone, is shown as it is."""
    assert format_moment("2026-11-21T23:05:40.79+01:00") == "2026-11-21 22:05:40 UTC"
    assert time_of_day("2026-11-21T22:05:40Z") == "22:05:40"
    assert format_moment("yesterday") == "yesterday" and format_moment("2026-11-21T22:05:40") == "2026-11-21T22:05:40"
    assert format_moment(None) == "None"


def test_what_is_cut_off_is_counted() -> None:
    """Long text and long tables say how much is missing."""
    assert shorten_text("a" * 20, 5) == "aaaaa ... and 15 more characters, in evidence.json"
    assert shorten_text("abc", 3) == "abc"
    shown = first_of(range(10), 3)
    assert (shown.rows, shown.total, shown.more) == ([0, 1, 2], 10, 7)


def test_control_characters_can_be_seen() -> None:
    """A name that turns the direction of writing, or hides, stands as what it is; letters of any script stay."""
    assert visible_text("\u202egnp.exe\x00\x1b") == "\\u202egnp.exe\\u0000\\u001b"
    assert visible_text("κατανάλωση ☕ مجموعة\n") == "κατανάλωση ☕ مجموعة\n" and visible_text(7) == 7
    visible_text("\ud800").encode("utf-8")


def test_figures_are_named_and_counted() -> None:
    """Files by name and rows, lists by their first and the count of the rest, flags as words."""
    figures = {"asked": False, "offsets": {"a": 1}, "none": [], "by": None}
    figures |= {"cut_off": {"file": "c.parquet", "sha256": "f" * 64, "rows": 7000}}
    figures |= {"groups": [f"g{n}" for n in range(10_000)]}
    told = dict(figure_lines(figures))
    long = {"cut off": "c.parquet, 7,000 rows", "groups": "g0, g1, g2, g3, g4 and 9,995 more"}
    assert told == {"asked": "no", "offsets": "a: 1", "none": "none", "by": "none", **long}


def test_one_huge_figure_stays_a_line() -> None:
    """A nested structure is cut as well."""
    assert all(
        len(text) < 500
        for _, text in figure_lines({"x": ["y" * 10_000] * 3, "z": {str(n): "w" * 999 for n in range(99)}})
    )
