"""A drill's records: each has a number, by which the drill counts for itself what became of the record."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kafka_dr.domain.drill.facts import Integrity
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition

#: What one record takes in a log, in bytes, with its overhead.
RECORD_BYTES = 250
_PADDING = "." * 120
#: Of a state of production that is named as changed; longer ones are cut.
_LONGEST = 200
_NOT_SET = "not set"


class NumberedRecord(NamedTuple):
    """One record of a drill in a log.

    Attributes:
        timestamp: milliseconds since 1970.
    """

    partition: TopicPartition
    offset: int
    number: int
    timestamp: int


class PassLogs(NamedTuple):
    """All records of a drill on both clusters, as read after a pass; `written`: numbers acknowledged before that."""

    written: frozenset[int]
    source: Sequence[NumberedRecord]
    target: Sequence[NumberedRecord]


def record_value(drill: str, number: int) -> bytes:
    """Return the value of a drill's record."""
    return json.dumps({"drill": drill, "number": number, "padding": _PADDING}).encode()


def record_number(value: bytes | None) -> int | None:
    """Return the number in a record's value; None if it is no record of a drill."""
    try:
        number = json.loads(value or b"")["number"]
    except (ValueError, KeyError, TypeError):
        return None
    return number if isinstance(number, int) else None


def count_pass(
    logs: PassLogs,
    positions: Iterable[Mapping[str, Any]],
    loss: Sequence[Mapping[str, Any]],
    cut_at: float | None = None,
    left_at: float | None = None,
) -> Integrity:
    """Return what a pass did to records and positions, counted by the records' numbers.

    Args:
        positions: rows of the pass's file of positions: group, topic, partition, position, target_topic,
            target_position.
        loss: rows of the pass's evidence: topic, partition, from_offset, possible_to.
        cut_at: when the drill took the source away, in seconds since 1970; None if it did not.
        left_at: when clients were redirected, in seconds since 1970; None if unknown.
    """
    counts = Counter(record.number for record in logs.target)
    missing = logs.written - counts.keys()
    lost = [record for record in logs.source if record.number in missing]
    listed = {record.number for record in lost if _is_listed(record, loss)}
    places = [place for row in positions if (place := _place(row, logs)) is not None]
    times = [record.timestamp / 1000 for record in lost]
    # MirrorMaker 2 loses the source a little later than the drill asks for it: whatever was still copied was written
    # before.
    copied = max((record.timestamp / 1000 for record in logs.source if record.number in counts), default=0.0)
    cut = None if cut_at is None else max(cut_at, copied)
    return Integrity(
        written=len(logs.written),
        mirrored=len(logs.written) - len(missing),
        lost_listed=len(listed),
        lost_unlisted=len(missing) - len(listed),
        lost_seconds=None if times and cut is None else max([0.0, *((cut or 0.0) - at for at in times)]),
        downtime_seconds=None if cut_at is None or left_at is None else left_at - cut_at,
        repeated=sum(1 for count in counts.values() if count > 1),
        reread_most=max((place.reread for place in places), default=0),
        positions_exact=sum(1 for place in places if not place.ahead and not place.reread),
        positions_bound=sum(1 for place in places if not place.ahead and place.reread),
        positions_ahead=sum(1 for place in places if place.ahead),
    )


class _Place(NamedTuple):
    ahead: bool
    reread: int


def _place(row: Mapping[str, Any], logs: PassLogs) -> _Place | None:
    """Return whether a target position is ahead of an unread record, and how many records are read again there.

    None for a position that was not committed.
    """
    if row["target_position"] is None or row["target_topic"] is None:
        return None
    source = TopicPartition(row["topic"], int(row["partition"]))
    target = TopicPartition(row["target_topic"], int(row["partition"]))
    unread = {r.number for r in logs.source if r.partition == source and r.offset >= row["position"]}
    read = {r.number for r in logs.source if r.partition == source and r.offset < row["position"]}
    last = {record.number: record.offset for record in logs.target if record.partition == target}
    again = {r.number for r in logs.target if r.partition == target and r.offset >= row["target_position"]}
    ahead = any(last[number] < row["target_position"] for number in unread if number in last)
    return _Place(ahead, len(again & read))


def _is_listed(record: NumberedRecord, loss: Sequence[Mapping[str, Any]]) -> bool:
    return any(
        (row["topic"], row["partition"]) == tuple(record.partition)
        and row["from_offset"] <= record.offset
        and (row["possible_to"] is None or record.offset < row["possible_to"])
        for row in loss
    )


def production_differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return in sentences what of production differs before and after a drill.

    Args:
        before, after: kind of thing -> its name -> its state, of production alone. A state is a text, or settings by
            key: then each setting that differs is named.
    """
    found: list[str] = []
    for kind in sorted({*before, *after}):
        then, now = before.get(kind, {}), after.get(kind, {})
        found += [f"{kind}: {name} is gone" for name in sorted(then.keys() - now.keys())]
        found += [f"{kind}: {name} is new" for name in sorted(now.keys() - then.keys())]
        for name in sorted(then.keys() & now.keys()):
            found += [f"{kind}: {name}{change}" for change in _changes(then[name], now[name])]
    return found


def _changes(then: Any, now: Any) -> Iterator[str]:
    """Yield what follows the name of a thing whose state differs."""
    if isinstance(then, Mapping) and isinstance(now, Mapping):
        for key in sorted(then.keys() | now.keys()):
            yield from (f": {key}{change}" for change in _changes(then.get(key, _NOT_SET), now.get(key, _NOT_SET)))
    elif then != now:
        yield f" was {_shortened(then)}, is {_shortened(now)}"


def _shortened(state: Any) -> str:
    text = str(state)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
