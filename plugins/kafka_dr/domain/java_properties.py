"""Java's .properties format, read exactly as `java.util.Properties.load` reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from kafka_dr.errors import BadInput

_BLANK = " \t\f"
_ESCAPE = re.compile(r"\\(u.{0,4}|.)", re.DOTALL)
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_KEY = re.compile(r"(?:\\.|[^\\=: \t\f])*", re.DOTALL)
_BETWEEN = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")


class Property(NamedTuple):
    """One entry: where its first line stands, its key, its value, and the value as written, before escapes were
    read.
    """

    line: int
    key: str
    value: str
    written: str


def read_properties(text: str) -> list[Property]:
    r"""Reads all entries in the file's order; a key that stands twice comes twice, and Java uses the last.

    Java reads the bytes as ISO-8859-1, so that is how `text` should have been decoded.

    Raises:
        BadInput: a `\u` without four hexadecimal digits, which Java refuses too; the text is not repeated.
    """
    return [_property(line, logical) for line, logical in _logical_lines(text)]


def _property(line: int, logical: str) -> Property:
    key_end = _KEY.match(logical).end()  # type: ignore[union-attr]  # both match the empty text too
    written = logical[_BETWEEN.match(logical, key_end).end() :]  # type: ignore[union-attr]
    return Property(line, _unescape(logical[:key_end], line), _unescape(written, line), written)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Joins lines that end in an odd number of backslashes; a comment never goes on, and a `#` in a continuation is
    data.
    """
    joined, first, goes_on = "", 0, False
    for number, raw in enumerate(re.split(r"\r\n|\r|\n", text.removesuffix("\n").removesuffix("\r")), start=1):
        line = raw.lstrip(_BLANK)
        first = first if joined else number
        if not joined and (not line or line[0] in "#!"):  # also after a line of nothing but a backslash: so Java has it
            goes_on = False
            continue
        # an even number of backslashes is that many halves of a literal one
        goes_on = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        joined += line[:-1] if goes_on else line
        if not goes_on:
            yield first, joined
            joined = ""
    if goes_on and (joined or not text.endswith("\r\n")):
        yield first, joined


def _unescape(text: str, line: int) -> str:
    def _plain(found: re.Match[str]) -> str:
        escaped = found.group(1)
        if escaped[0] != "u":
            return _CONTROL.get(escaped, escaped)
        if not re.fullmatch(r"u[0-9a-fA-F]{4}", escaped):
            raise BadInput(
                f"line {line} holds a \\u without four hexadecimal digits",
                next_step="correct the escape, or double the backslash",
            )
        return chr(int(escaped[1:], 16))

    return _ESCAPE.sub(_plain, text)
