"""Numbers, times and figures as text for people, shortened where long."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

_LONGEST_TEXT = 1_500
_ITEMS_LISTED = 5
#: Control characters and direction marks, with which a name could hide or reverse the text beside it on a page.
_HIDDEN_CHARACTERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
_WORDS = {True: "yes", False: "no", None: "none"}


@dataclass(frozen=True)
class Shown:
    """The rows of a list that a page shows, and the number of all rows of the list."""

    rows: list[Any]
    total: int

    @property
    def more(self) -> int:
        """Number of rows that are not shown."""
        return self.total - len(self.rows)


def first_of(rows: Iterable[Any], limit: int) -> Shown:
    """Return the first `limit` rows with the number of all rows."""
    all_rows = list(rows)
    return Shown(all_rows[:limit], len(all_rows))


def first_few(names: Sequence[object], most: int = 10, separator: str = ", ") -> str:
    """Return the first `most` names as text, with the number of the others: `a, b and 3 more`."""
    return separator.join(map(str, names[:most])) + (f" and {len(names) - most} more" if len(names) > most else "")


def format_number(value: Any) -> str:
    """Return an integer with thousands separators, None as `unknown`, and any other value unchanged, as text."""
    if value is None:
        return "unknown"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def count_of(count: int, thing: str) -> str:
    """Return a number with its noun, which takes an s unless the number is 1: `1 group`, `2 groups`."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def format_duration(seconds: float) -> str:
    """Return a length of time as text, such as `0 s`, `0.004 s`, `43.1 s`, `90 s`, `12 min 04 s`, `2 h 05 min`."""
    if seconds < 100 and float(seconds).is_integer():
        return f"{int(seconds)} s"
    if seconds < 99.95:
        return f"{seconds:.3f} s" if seconds < 0.1 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes_left = divmod(minutes, 60)
    return f"{hours} h {minutes_left:02d} min" if hours else f"{minutes} min {rest:02d} s"


def format_age(seconds: float) -> str:
    """Return how long ago something was, in its largest unit: `just now`, `40 s ago`, `5 min ago`, `3 days ago`."""
    if seconds < 1:
        return "just now"
    for unit, length, most in (("s", 1, 100), ("min", 60, 100), ("h", 3600, 48)):
        if seconds < most * length:
            return f"{int(seconds // length)} {unit} ago"
    return f"{int(seconds // 86_400)} days ago"


def format_clock(seconds: float) -> str:
    """Return a length of time in whole seconds, as a stop watch shows it: `1:43`, `1:02:03`."""
    minutes, rest = divmod(max(0, int(seconds)), 60)
    hours, minutes_left = divmod(minutes, 60)
    return f"{hours}:{minutes_left:02d}:{rest:02d}" if hours else f"{minutes_left}:{rest:02d}"


def format_moment(text: Any) -> str:
    """Return an ISO time as `2026-11-21 22:05:40 UTC`; text that is no time is returned unchanged."""
    moment = parse_moment(text)
    return str(text) if moment is None else f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def time_of_day(text: Any) -> str:
    """Return an ISO time as `22:05:40`, in UTC; text that is no time is returned unchanged."""
    moment = parse_moment(text)
    return str(text) if moment is None else f"{moment:%H:%M:%S}"


def parse_moment(text: Any) -> datetime | None:
    """Return an ISO time with time zone, converted to UTC; None if the text is no such time."""
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return moment.astimezone(UTC) if moment.tzinfo else None


def visible_text(value: Any) -> Any:
    r"""Return text with every control character escaped, as `\u202e`; a value that is no text is returned unchanged."""
    return _HIDDEN_CHARACTERS.sub(lambda match: f"\\u{ord(match[0]):04x}", value) if isinstance(value, str) else value


def shorten_text(text: Any, limit: int = _LONGEST_TEXT) -> str:
    """Return text cut to `limit` characters, with the number of characters cut off."""
    whole = str(text)
    return (
        whole
        if len(whole) <= limit
        else f"{whole[:limit]} ... and {len(whole) - limit:,} more characters, in evidence.json"
    )


def figure_lines(figures: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return a step's figures as pairs: name of the figure, text.

    The text for a file is the file's name; the text for a long list is its first items and the number of the others.
    """
    return [(str(name).replace("_", " "), shorten_text(_figure(value), 400)) for name, value in figures.items()]


def _figure(value: Any) -> str:
    if isinstance(value, Mapping):
        return _mapping(value)
    if value is None or isinstance(value, bool):
        return _WORDS[value]
    if isinstance(value, str) or not isinstance(value, Sequence):
        return format_number(value)
    listed = [_figure(item) for item in value[:_ITEMS_LISTED]]
    rest = len(value) - len(listed)
    return (", ".join(listed) + (f" and {rest:,} more" if rest else "")) or "none"


def _mapping(value: Mapping[str, Any]) -> str:
    if "file" in value and "sha256" in value:
        return f"{value['file']}, {count_of(int(value.get('rows') or 0), 'row')}"
    pairs = [f"{name}: {_figure(item)}" for name, item in list(value.items())[:_ITEMS_LISTED]]
    rest = len(value) - len(pairs)
    return (", ".join(pairs) + (f" and {rest:,} more" if rest else "")) or "none"


_BIDI = dict.fromkeys([0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)])
_MARKUP = {
    **{ord(char): "\\" + char for char in "\\|[]*_~!"},
    ord("<"): "&lt;",
    ord(">"): "&gt;",
    ord("&"): "&amp;",
    ord("{"): "&#123;",
    ord("}"): "&#125;",
    ord("`"): "'",
    ord("\n"): " ",
    ord("\r"): " ",
}


def table_cell(text: str) -> str:
    """Return text made safe for a Markdown table: no markup, links, line breaks, template braces, direction marks.

    A space separates the slashes of a URL: pages turn URLs into links after they have read escapes.
    """
    return text.translate(_BIDI).replace("://", ": //").translate(_MARKUP)
