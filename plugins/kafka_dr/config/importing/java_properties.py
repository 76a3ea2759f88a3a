"""Java's .properties format, with the line of each entry."""

from __future__ import annotations

import re
from typing import NamedTuple

import javaproperties

from kafka_dr.errors import BadInput


class Property(NamedTuple):
    """One entry: its first line's number, its key and value, and its lines as they are written."""

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
    entries, line = [], 1
    try:
        for element in javaproperties.parse(text):
            if isinstance(element, javaproperties.KeyValue):
                entries.append(Property(line, element.key, element.value, element.source))
            line += len(re.findall(r"\r\n|\r|\n", element.source))
    except javaproperties.InvalidUEscapeError:
        raise BadInput(
            f"line {line} holds a \\u without four hexadecimal digits",
            next_step="correct the escape, or double the backslash",
        ) from None
    return entries
