"""Reads Java's .properties format, with the line of each property."""

from __future__ import annotations

import re
from typing import NamedTuple

import javaproperties

from kafka_dr.errors import BadInput


class Property(NamedTuple):
    """One property of a .properties file.

    Attributes:
        line: number of the property's first line, from 1.
        written: the property's text as written in the file, with escapes and line breaks.
    """

    line: int
    key: str
    value: str
    written: str


def read_properties(text: str) -> list[Property]:
    r"""Return all properties in the file's order; a duplicate key gives two properties, of which Java uses the last.

    The caller must have decoded `text` as ISO-8859-1, as Java does.

    Raises:
        BadInput: `\u` without four hexadecimal digits, which Java refuses, too; the error does not quote the file.
    """
    entries, line = [], 1
    try:
        for element in javaproperties.parse(text):
            if isinstance(element, javaproperties.KeyValue):
                entries.append(Property(line, element.key, element.value, element.source))
            line += len(re.findall(r"\r\n|\r|\n", element.source))
    except javaproperties.InvalidUEscapeError:
        raise BadInput(
            f"line {line} of the properties file contains a \\u without four hexadecimal digits",
            next_step="correct the escape, or double the backslash",
        ) from None
    return entries
