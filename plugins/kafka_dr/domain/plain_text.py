"""Numbers, times and figures as a person reads them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

_LONGEST = 1_500
_LISTED = 5
#: Controls, and marks that turn the direction of writing: a name must not hide or mirror what stands beside it.
_HIDING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
_WORDS = {True: "yes", False: "no", None: "none"}


@dataclass(frozen=True)
class Shown:
    """The first rows of many, and how many there are in all."""

    rows: list[Any]
    total: int

    @property
    def more(self) -> int:
        """How many rows are not shown."""
        return self.total - len(self.rows)


def first_of(rows: Iterable[Any], limit: int) -> Shown:
    """The first `limit` rows."""
    everything = list(rows)
    return Shown(everything[:limit], len(everything))


def first_few(names: Sequence[object], most: int = 10, separator: str = ", ") -> str:
    """The first names, and how many more there are: `a, b and 3 more`."""
    return separator.join(map(str, names[:most])) + (f" and {len(names) - most} more" if len(names) > most else "")


def format_number(value: Any) -> str:
    """A count with its thousands apart; what is no number stays as it is, and nothing is called unknown."""
    if value is None:
        return "unknown"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def count_of(count: int, thing: str) -> str:
    """`1 group`, `2 groups`."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def format_duration(seconds: float) -> str:
    """`0 s`, `0.004 s`, `43.1 s`, `90 s`, `12 min 04 s`, `2 h 05 min`."""
    if seconds < 100 and float(seconds).is_integer():
        return f"{int(seconds)} s"
    if seconds < 99.95:
        return f"{seconds:.3f} s" if seconds < 0.1 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, left = divmod(minutes, 60)
    return f"{hours} h {left:02d} min" if hours else f"{minutes} min {rest:02d} s"


def format_clock(seconds: float) -> str:
    """`1:43`, `1:02:03`: whole seconds, as a stop watch shows them."""
    minutes, rest = divmod(max(0, int(seconds)), 60)
    hours, left = divmod(minutes, 60)
    return f"{hours}:{left:02d}:{rest:02d}" if hours else f"{left}:{rest:02d}"


def format_moment(text: Any) -> str:
    """An ISO time as `2026-11-21 22:05:40 UTC`; text that is no time stays as it is."""
    found = parse_moment(text)
    return str(text) if found is None else f"{found:%Y-%m-%d %H:%M:%S} UTC"


def time_of_day(text: Any) -> str:
    """An ISO time as `22:05:40`; text that is no time stays as it is."""
    found = parse_moment(text)
    return str(text) if found is None else f"{found:%H:%M:%S}"


def parse_moment(text: Any) -> datetime | None:
    """An ISO time with its zone, in UTC; None when it is none."""
    try:
        found = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return found.astimezone(UTC) if found.tzinfo else None


def visible_text(value: Any) -> Any:
    r"""Text in which every control character can be seen, as `\u202e`; what is no text stays as it is."""
    return _HIDING.sub(lambda found: f"\\u{ord(found[0]):04x}", value) if isinstance(value, str) else value


def shorten_text(text: Any, limit: int = _LONGEST) -> str:
    """Text that fits a page; what was cut off is counted."""
    whole = str(text)
    return (
        whole
        if len(whole) <= limit
        else f"{whole[:limit]} ... and {len(whole) - limit:,} more characters, in evidence.json"
    )


def figure_lines(figures: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Figures of a step as name and text; a file is named, a long list is counted."""
    return [(str(name).replace("_", " "), shorten_text(_figure(value), 400)) for name, value in figures.items()]


def _figure(value: Any) -> str:
    if isinstance(value, Mapping):
        return _mapping(value)
    if value is None or isinstance(value, bool):
        return _WORDS[value]
    if isinstance(value, str) or not isinstance(value, Sequence):
        return format_number(value)
    listed = [_figure(one) for one in value[:_LISTED]]
    rest = len(value) - len(listed)
    return (", ".join(listed) + (f" and {rest:,} more" if rest else "")) or "none"


def _mapping(value: Mapping[str, Any]) -> str:
    if "file" in value and "sha256" in value:
        return f"{value['file']}, {count_of(int(value.get('rows') or 0), 'row')}"
    pairs = [f"{name}: {_figure(one)}" for name, one in list(value.items())[:_LISTED]]
    rest = len(value) - len(pairs)
    return (", ".join(pairs) + (f" and {rest:,} more" if rest else "")) or "none"
