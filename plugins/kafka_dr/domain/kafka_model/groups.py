"""Groups of every protocol as a broker lists them, and what a classic group's own record says of its members."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

#: Version of the keys in __consumer_offsets whose records describe a classic group; the others are of positions.
_GROUP_KEY = 2


@dataclass(frozen=True)
class ListedGroup:
    """One group in a broker's list of groups.

    Attributes:
        protocol_type: `consumer`, `connect`, `share`, or another protocol's name; empty for a group of which only an
            admin client or a consumer without subscription has committed positions.
        group_type: `classic`, `consumer`, `share` or `streams`; empty if the broker is older than Kafka 3.8.
    """

    protocol_type: str
    group_type: str = ""


@dataclass(frozen=True)
class GroupRecord:
    """What a record of __consumer_offsets says of one classic group.

    Attributes:
        session_seconds: session timeout in seconds by the static members' group.instance.id; under the empty name the
            longest of all other members.
    """

    group: str
    session_seconds: Mapping[str, float] = field(default_factory=dict)


class _Cursor:
    """Reads values of the protocol's basic types, one after the other."""

    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0

    def number(self, code: str) -> int:
        value: int = struct.unpack_from(f">{code}", self._content, self._at)[0]
        self._at += struct.calcsize(code)
        return value

    def text(self) -> str | None:
        length = self.number("h")
        return None if length < 0 else self._taken(length).decode()

    def skip_bytes(self) -> None:
        self._taken(max(0, self.number("i")))

    def _taken(self, length: int) -> bytes:
        content = self._content[self._at : self._at + length]
        if len(content) < length:
            raise ValueError("the record ends too early")
        self._at += length
        return content


def group_record(key: bytes | None, value: bytes | None) -> GroupRecord | None:
    """Return what a record of __consumer_offsets says of a classic group; None if it describes no classic group.

    A deleted group has no members. A record that cannot be read, because a later Kafka writes it in another
    way, counts as one that describes no group.
    """
    try:
        cursor = _Cursor(key or b"")
        if cursor.number("h") != _GROUP_KEY:
            return None
        return GroupRecord(cursor.text() or "", {} if value is None else _sessions(_Cursor(value)))
    except (struct.error, ValueError):
        return None


def _sessions(cursor: _Cursor) -> dict[str, float]:
    """Return the session timeouts in a group's record, as `GroupRecord` has them."""
    version = cursor.number("h")
    if not 0 <= version <= 3:
        raise ValueError("a version with another layout")
    for read in (cursor.text, lambda: cursor.number("i"), cursor.text, cursor.text):
        read()
    if version >= 2:
        cursor.number("q")
    sessions: dict[str, float] = {}
    for _ in range(cursor.number("i")):
        cursor.text()
        instance = cursor.text() if version >= 3 else None
        cursor.text()
        cursor.text()
        if version >= 1:
            cursor.number("i")
        milliseconds = cursor.number("i")
        cursor.skip_bytes()
        cursor.skip_bytes()
        sessions[instance or ""] = max(milliseconds / 1000, 0.0 if instance else sessions.get("", 0.0))
    return sessions
