"""What a record of __consumer_offsets says of a classic group."""

from __future__ import annotations

import struct

import pytest
from kafka_dr.domain.kafka_model.groups import GroupRecord, group_record


def text(value: str | None) -> bytes:
    """A string as Kafka writes it."""
    return struct.pack(">h", -1) if value is None else struct.pack(">h", len(value)) + value.encode()


def key(group: str, version: int = 2) -> bytes:
    """The key of a group's record."""
    return struct.pack(">h", version) + text(group)


def member(version: int, instance: str | None, milliseconds: int) -> bytes:
    """One member as each version writes it."""
    named = text(instance) if version >= 3 else b""
    rebalance = struct.pack(">i", 300_000) if version >= 1 else b""
    empty = struct.pack(">i", 2) + b"ab" + struct.pack(">i", -1)
    return (
        text("consumer-1")
        + named
        + text("client")
        + text("/10.0.0.1")
        + rebalance
        + struct.pack(">i", milliseconds)
        + empty
    )


def value(version: int, *members: bytes) -> bytes:
    """A group's record with these members."""
    head = struct.pack(">h", version) + text("consumer") + struct.pack(">i", 4) + text("range") + text(None)
    since = struct.pack(">q", 1_700_000_000_000) if version >= 2 else b""
    return head + since + struct.pack(">i", len(members)) + b"".join(members)


def test_members_have_their_session_timeouts() -> None:
    """In seconds, by group.instance.id; of members without one the longest counts."""
    others = (member(3, None, 45_000), member(3, None, 30_000))
    content = value(3, *others, member(3, "i-1", 180_000), member(3, "i-2", 6_500))
    assert group_record(key("billing"), content) == GroupRecord("billing", {"": 45.0, "i-1": 180.0, "i-2": 6.5})


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_records_of_older_brokers_are_read_too(version: int) -> None:
    """Before version 3 no member is static."""
    expected = {"i": 9.0} if version == 3 else {"": 9.0}
    assert group_record(key("g"), value(version, member(version, "i", 9_000))) == GroupRecord("g", expected)


def test_a_deleted_group_has_no_members() -> None:
    """Its record has no value."""
    assert group_record(key("g"), None) == GroupRecord("g")


@pytest.mark.parametrize(
    ("of_key", "content"),
    [
        (key("g", 1), value(3)),
        (None, value(3)),
        (b"", value(3)),
        (key("g")[:4], value(3)),
        (key("g"), value(4, member(3, "i", 9_000))),
        (key("g"), value(3, member(3, "i", 9_000))[:-7]),
    ],
    ids=["a position", "no key", "empty key", "cut key", "later version", "cut value"],
)
def test_what_cannot_be_read_describes_no_group(of_key: bytes | None, content: bytes) -> None:
    """So that a session timeout stays unknown."""
    assert group_record(of_key, content) is None
