"""Records by the numbers in them: each is once on the source and once on the target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.checker.findings import Finding
from lab.checker.readers import Place
from lab.checker.untouched.log_reader import read_messages

#: Numbers of one producer's records are smaller than this.
_APART = 10**10
Ids = NDArray[np.int64]


def id_of(worker: int, numbers: Any) -> Any:
    """Return the ids, as integers, of records of a producer."""
    return worker * _APART + numbers


def read_ids(properties: Mapping[str, str], ends: Mapping[Place, int]) -> dict[str, Ids]:
    """Return the ids of all records below these log ends, by topic.

    Args:
        properties: librdkafka settings of a client that may read the topics.
        ends: end of each partition, by (topic, partition).

    Raises:
        NothingRead: a log could not be read to its end.
    """
    ids: dict[str, list[int]] = {topic: [] for topic, _ in ends}
    for (topic, _), message in read_messages(properties, {}, ends):
        ids[topic].append(_id_in(message.value()))
    return {topic: np.array(found, np.int64) for topic, found in ids.items()}


def _id_in(value: bytes) -> int:
    _, worker, number = value.split(b" ", 1)[0].split(b"-")
    return int(id_of(int(worker), int(number)))


def id_findings(acknowledged: Ids, source: Mapping[str, Ids], target: Mapping[str, Ids]) -> list[Finding]:
    """Return a finding for each kind of difference between what was acknowledged and what both clusters hold.

    Args:
        acknowledged: ids of all acknowledged records.
        source: ids on the source, by topic.
        target: ids on the target, by the topic's name on the source.
    """
    findings = []
    on_source, on_target = (np.concatenate([np.array([], np.int64), *ids.values()]) for ids in (source, target))
    for text, found in (
        ("acknowledged records are absent on the source", np.setdiff1d(acknowledged, on_source)),
        ("records are on the source more than once", _repeated(on_source)),
        ("records of the source are absent on the target", np.setdiff1d(on_source, on_target)),
        ("records of the target were never on the source", np.setdiff1d(on_target, on_source)),
        ("records are on the target more than once", _repeated(on_target)),
        ("records are on the target in another topic", _misplaced(source, target)),
    ):
        if found.size:
            findings.append(Finding("untouched", f"{found.size} {text}, such as {found[:5].tolist()}"))
    return findings


def _repeated(ids: Ids) -> Ids:
    unique, counts = np.unique(ids, return_counts=True)
    return unique[counts > 1]


def _misplaced(source: Mapping[str, Ids], target: Mapping[str, Ids]) -> Ids:
    elsewhere: Iterable[Ids] = (
        np.intersect1d(ids, target.get(other, np.array([], np.int64)))
        for topic, ids in source.items()
        for other in source
        if other != topic
    )
    return np.concatenate([np.array([], np.int64), *elsewhere])
