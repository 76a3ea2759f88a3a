"""Which settings of MirrorMaker 2's connectors change_replication may change, and which values they take."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple


class ConnectorKind(StrEnum):
    """The kinds of connectors of a flow that this procedure changes."""

    SOURCE = "source"
    CHECKPOINT = "checkpoint"


_SOURCE, _CHECKPOINT = (ConnectorKind.SOURCE,), (ConnectorKind.CHECKPOINT,)
_BOTH = (*_SOURCE, *_CHECKPOINT)
SYNCS_LOCATION = "offset-syncs.topic.location"
_LARGEST = 2**31 - 1


class Tuning(NamedTuple):
    """One setting: the kinds of connectors that have it, and what is wrong with a value, as text ("" if nothing is)."""

    kinds: tuple[ConnectorKind, ...]
    problem: Callable[[str], str]


def _whole(least: int) -> Callable[[str], str]:
    def problem(value: str) -> str:
        fits = re.fullmatch(r"\d{1,10}", value) and least <= int(value) <= _LARGEST
        return "" if fits else f"a whole number from {least} to {_LARGEST}"

    return problem


def _one_of(*values: str) -> Callable[[str], str]:
    return lambda value: "" if value in values else f"one of {', '.join(values)}"


_PRODUCER = {
    "batch.size": _whole(0),
    "buffer.memory": _whole(1_000_000),
    "compression.type": _one_of("none", "gzip", "snappy", "lz4", "zstd"),
    "linger.ms": _whole(0),
    "max.request.size": _whole(1_000),
    "request.timeout.ms": _whole(1_000),
    "send.buffer.bytes": _whole(1_000),
}
_CONSUMER = {
    "fetch.max.bytes": _whole(1_000),
    "fetch.max.wait.ms": _whole(0),
    "fetch.min.bytes": _whole(1),
    "max.partition.fetch.bytes": _whole(1_000),
    "max.poll.records": _whole(1),
    "receive.buffer.bytes": _whole(1_000),
}
#: Where a connector in Connect takes the settings of the producer and of the consumer that copy records.
_PRODUCER_PREFIX, _CONSUMER_PREFIXES = "producer.override.", ("source.consumer.", "consumer.")
_INTERVALS = {
    "refresh.topics.interval.seconds": _SOURCE,
    "sync.topic.configs.interval.seconds": _SOURCE,
    "sync.topic.acls.interval.seconds": _SOURCE,
    "refresh.groups.interval.seconds": _CHECKPOINT,
    "emit.checkpoints.interval.seconds": _CHECKPOINT,
    "sync.group.offsets.interval.seconds": _CHECKPOINT,
}
TUNINGS: Mapping[str, Tuning] = {
    "tasks.max": Tuning(_SOURCE, _whole(1)),
    "offset.lag.max": Tuning(_SOURCE, _whole(0)),
    SYNCS_LOCATION: Tuning(_BOTH, _one_of("source", "target")),
    **{key: Tuning(kinds, _whole(1)) for key, kinds in _INTERVALS.items()},
    **{_PRODUCER_PREFIX + key: Tuning(_SOURCE, problem) for key, problem in _PRODUCER.items()},
    **{prefix + key: Tuning(_SOURCE, problem) for prefix in _CONSUMER_PREFIXES for key, problem in _CONSUMER.items()},
}


def tuning_problems(settings: Mapping[str, str]) -> Iterator[str]:
    """Yield what is wrong with the settings that a person gives; an empty value removes a setting."""
    for key, value in sorted(settings.items()):
        tuning = TUNINGS.get(key)
        if tuning is None:
            yield f"{key!a}: {_why_not(key)}"
        elif value and (problem := tuning.problem(value)):
            yield f"{key}: {value[:60]!a}; expected {problem}, or nothing to remove the setting"


def _why_not(key: str) -> str:
    producer = key.removeprefix("producer.")
    if producer in _PRODUCER:
        return f"in Connect it does not reach the producer that copies records; write {_PRODUCER_PREFIX}{producer}"
    return f"this procedure does not change it; settings: {', '.join(TUNINGS)}"


def settings_for(kind: ConnectorKind, settings: Mapping[str, str]) -> dict[str, str | None]:
    """Return those of the settings that connectors of a kind have; None for a setting that is to be removed."""
    return {key: value or None for key, value in sorted(settings.items()) if kind in TUNINGS[key].kinds}
