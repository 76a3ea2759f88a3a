"""Asking Kafka's tool for sizes: what it is told, topic by topic."""

from __future__ import annotations

from typing import Any

import pytest
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.hooks.brokers import log_directories as kafka_log_dirs
from kafka_dr.hooks.brokers.log_directories import LogDirTool

CONFIG = {"bootstrap.servers": "b1:9092"}
SAID = (
    "Querying"
    ' brokers\n{"version":1,"brokers":[{"broker":1,"logDirs":[{"logDir":"/d","error":null,"partitions":[{"partition":"%s-0","size":7,"offsetLag":0,"isFuture":false}]}]}]}'
)


def test_topics_are_asked_for_by_name_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """One argument must not grow beyond what a program can be given; without topics nothing is asked."""
    asked: list[tuple[str, ...]] = []

    def run(_: Any, *arguments: str) -> str:
        asked.append(arguments)
        return SAID % arguments[1].rpartition(",")[2].removeprefix("--topic-list=")

    monkeypatch.setattr(kafka_log_dirs, "_TOPICS", 2)
    monkeypatch.setattr(LogDirTool, "_run", run)
    tool = LogDirTool("/libs", CONFIG, "c1")
    assert tool.sizes([]) == {} and not asked
    assert tool.sizes(["c", "a", "b", "a"]) == {TopicPartition("b", 0): 7, TopicPartition("c", 0): 7}
    assert asked == [("--describe", "--topic-list=a,b"), ("--describe", "--topic-list=c")]
