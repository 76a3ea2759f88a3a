"""How large logs are, from the tool's own words."""

from __future__ import annotations

import json

import pytest
from kafka_dr.domain.kafka_model.log_sizes import log_sizes
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import BadInput


def said(*folders: tuple[int, str | None, list[tuple[str, int, bool]]]) -> str:
    """What the tool prints: lines for people before the one of JSON."""
    brokers = []
    for number, error, parts in folders:
        sizes = [{"partition": name, "size": size, "offsetLag": 0, "isFuture": moved} for name, size, moved in parts]
        brokers.append({"broker": number, "logDirs": [{"logDir": "/d", "error": error, "partitions": sizes}]})
    return (
        "Querying brokers for log directories information\nReceived log directory information from brokers 1,2\n"
        + json.dumps({"version": 1, "brokers": brokers})
    )


def test_the_largest_replica_counts() -> None:
    """Names may hold dashes; a replica that is being moved to another disk is none yet."""
    told = said(
        (1, None, [("a-b-0", 7, False), ("a-b-1", 1, False)]), (2, None, [("a-b-0", 9, False), ("a-b-1", 99, True)])
    )
    assert log_sizes(told, "east") == {TopicPartition("a-b", 0): 9, TopicPartition("a-b", 1): 1}
    assert log_sizes(said(), "east") == {}


@pytest.mark.parametrize("told", ["", "Querying brokers", said((1, "KAFKA_STORAGE_ERROR", [])), "{", '{"a":' * 100_000])
def test_sizes_that_nobody_told_are_none(told: str) -> None:
    """Half of the sum would be taken for the whole."""
    with pytest.raises(BadInput, match="no sizes of logs|broker 1: KAFKA_STORAGE_ERROR"):
        log_sizes(told, "east")
