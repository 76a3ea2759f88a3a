"""Brokers that answer kafka-python's requests by a script, in place of a cluster."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.protocol.metadata import MetadataResponse

Answer = Callable[[int, Any], Any]


def sent(kind: Any, version: int, **fields: Any) -> Any:
    """Return an answer as it arrives in this version of the protocol."""
    return kind.decode(kind(version=version, throttle_time_ms=0, **fields).encode(version=version), version=version)


class AnsweringBrokers:
    """Stands in for the client of kafka-python.

    Attributes:
        leaders: by topic, the leader of each partition; -1 for a partition without leader.
        answers: by the request's name, what the broker with an id answers: an answer, or a KafkaError.
        asked: each request with the broker's id, in order; without requests for metadata.
        closed: how often a client was closed, and `made`, how often one connected.
    """

    def __init__(self, *brokers: int) -> None:
        self.brokers, self.leaders = brokers, dict[str, list[int]]()
        self.answers: dict[str, Answer] = {}
        self.asked: list[tuple[int, Any]] = []
        self.made = self.closed = 0

    def connect(self, sends: frozenset[str], **settings: Any) -> AnsweringBrokers:
        """Stand in for the constructor."""
        self.sends, self.settings = sends, settings
        self.made += 1
        return self

    def close(self) -> None:
        """Disconnect."""
        self.closed += 1

    def ask_each(self, requests: Mapping[int, Any], timeout: float) -> dict[int, Any]:
        """Answer each request by the script."""
        return {broker: self._answer(broker, request) for broker, request in requests.items()}

    def _answer(self, broker: int, request: Any) -> Any:
        name = type(request).__name__
        assert name in self.sends
        if name == "MetadataRequest":
            assert request.allow_auto_topic_creation is False
            return self._metadata([topic.name for topic in request.topics])
        self.asked.append((broker, request))
        return self.answers[name](broker, request)

    def _metadata(self, names: list[str]) -> Any:
        topic, broker = MetadataResponse.MetadataResponseTopic, MetadataResponse.MetadataResponseBroker
        topics = [
            topic(
                error_code=0 if name in self.leaders else 3,
                name=name,
                is_internal=False,
                partitions=[
                    topic.MetadataResponsePartition(
                        error_code=0 if leader >= 0 else 5,
                        partition_index=number,
                        leader_id=leader,
                        replica_nodes=[],
                        isr_nodes=[],
                        offline_replicas=[],
                    )
                    for number, leader in enumerate(self.leaders.get(name, ()))
                ],
            )
            for name in names
        ]
        found = [broker(node_id=number, host="h", port=1, rack=None) for number in self.brokers]
        return sent(MetadataResponse, 8, brokers=found, cluster_id="c", controller_id=1, topics=topics)
