"""At which offset of the source the copying of a partition begins again, and what Connect must store for it.

Connect stores the offset of the record that was copied *last*: X - 1 begins at X. To begin at 0, no offset is stored,
and the consumer's `auto.offset.reset` decides: with `latest`, MirrorMaker 2 then copies nothing that exists already. A
stored 0 skips record 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from kafka_dr.domain.kafka_model.topic_partition import TopicPartition

EARLIEST = "earliest"
#: The setting of a source connector that counts before all others for `auto.offset.reset`.
RESET = "source.consumer.auto.offset.reset"
_PLACE = re.compile(r"([A-Za-z0-9._-]{1,249})(?::(\d{1,9}))?")


class SourceSpan(NamedTuple):
    """Log start and log end of one partition of the source."""

    start: int
    end: int


def place_problem(place: str) -> str | None:
    """Return why a text names neither a topic nor, as `TOPIC:PARTITION`, a partition; None if it names one."""
    return None if _PLACE.fullmatch(place) else "expected TOPIC or TOPIC:PARTITION"


def time_of(text: str) -> int | None:
    """Return an ISO 8601 time in milliseconds since 1970, UTC unless it states a zone; None if it is no such time."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def reset_of(config: Mapping[str, str]) -> str:
    """Return `auto.offset.reset` of the consumer that a source connector of this configuration really uses."""
    stated = config.get(RESET) or config.get("consumer.auto.offset.reset")
    return (stated or EARLIEST).strip().lower()


def by_partition(starts: Mapping[str, int], partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the given partitions with the start that a param states for them; a partition's own start counts first.

    Args:
        starts: `TOPIC` or `TOPIC:PARTITION` -> start.
    """
    chosen = {tp: starts.get(f"{tp.topic}:{tp.partition}", starts.get(tp.topic)) for tp in partitions}
    return {tp: start for tp, start in chosen.items() if start is not None}


def unknown_places(starts: Iterable[str], partitions: Iterable[TopicPartition]) -> list[str]:
    """Return those places of a param, `TOPIC` or `TOPIC:PARTITION`, that name none of the given partitions; sorted."""
    known = {name for tp in partitions for name in (tp.topic, f"{tp.topic}:{tp.partition}")}
    return sorted(set(starts) - known)


def first_offsets(
    spans: Mapping[TopicPartition, SourceSpan],
    from_offset: Mapping[TopicPartition, int],
    at_time: Mapping[TopicPartition, int],
) -> tuple[dict[TopicPartition, int], list[str]]:
    """Return the first source offset to copy, by partition, and what is wrong with the starts, as sentences.

    Args:
        spans: log start and log end of each partition to copy again.
        from_offset: first offsets as asked for.
        at_time: offset of the first record at or after the time that was asked for; -1: the log has none.
    """
    firsts, problems = {}, []
    for tp, span in spans.items():
        if tp in from_offset and tp in at_time:
            problems.append(f"{tp}: an offset and a time are given; state one of them")
        elif tp in from_offset and not span.start <= from_offset[tp] <= span.end:
            problems.append(f"{tp}: offset {from_offset[tp]} is outside the log, {span.start} to {span.end}")
        elif tp in at_time:
            firsts[tp] = span.end if at_time[tp] < 0 else max(span.start, at_time[tp])
        else:
            firsts[tp] = from_offset.get(tp, span.start)
    return firsts, problems


def offset_before(first: int) -> int | None:
    """Return what Connect must store so that copying begins at the offset `first`: None for 0, else `first` - 1."""
    return first - 1 if first > 0 else None


def connectors_to_reset(
    firsts: Mapping[TopicPartition, int],
    owners: Mapping[str, Iterable[str]],
    configs: Mapping[str, Mapping[str, str]],
) -> dict[str, str | None]:
    """Return the connectors that must begin at the first record meanwhile, with their value of `RESET` now.

    These are the connectors that copy a partition from offset 0, and begin a partition without an offset elsewhere.

    Args:
        firsts: first source offset to copy, by partition.
        owners: topic -> the source connectors that copy the topic.
        configs: source connector -> its configuration.
    """
    needing = {name for tp, first in firsts.items() if first == 0 for name in owners[tp.topic]}
    return {name: configs[name].get(RESET) for name in sorted(needing) if reset_of(configs[name]) != EARLIEST}
