"""The page of notices: a row and a heading for each event, with the severity that the code gives it."""

from __future__ import annotations

import re
from pathlib import Path

from kafka_dr.domain.notices.notice import SEVERITIES, Event

PAGE = (Path(__file__).parents[2] / "runbooks" / "notifications.md").read_text(encoding="utf-8")
EVENTS = [event for event in Event if event is not Event.TEST]


def test_each_event_has_its_row_with_its_severity() -> None:
    """In the order of the code."""
    rows = re.findall(r"^\| \[(\w+)\]\(#(\w+)\) \| (\w+) \|", PAGE, flags=re.MULTILINE)
    assert rows == [(event.value, event.value, SEVERITIES[event].name.lower()) for event in EVENTS]


def test_each_event_has_its_heading() -> None:
    """Which says what to do; no other heading looks like an event."""
    headings = re.findall(r"^## ([a-z]+_?[a-z_]*)\n\n.{20}", PAGE, flags=re.MULTILINE)
    assert headings == [event.value for event in EVENTS]
