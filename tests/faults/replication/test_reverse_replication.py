"""A real planned failover that gives the new primary a standby: records flow back, none of the old ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from lab.environment.state import Lab
from lab.rehearsal.planned import Rehearsal
from tests.support.rehearsals import SEED


@pytest.mark.parametrize("policy", ["identity", "default"])
def test_only_what_clients_wrote_since_flows_back(policy: str, fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """What stands on the old primary beyond the cut-off is what clients wrote since, once."""
    state = fresh_lab(policy)
    rehearsal = Rehearsal(state, tmp_path, SEED, scale=0.2, groups=10)
    try:
        rehearsal.seed_topics()
        rehearsal.start_clients()
        assert rehearsal.run("approver", "records shall flow back", start_reverse_replication=True) == 0
        assert rehearsal.settle() == []
    finally:
        rehearsal.stop()
    _, evidence = rehearsal.evidence()
    started = next(step for step in evidence["steps"] if step["id"] == "start_reverse_replication")["figures"]
    assert started["started"] and started["partitions_flowing"] > 0
    lab = Lab(state)
    prefix = "" if policy == "identity" else "standby."
    cut_off = (
        {(row["topic"], row["partition"]): row["offset"] for row in evidence["cut_off"]} if policy == "identity" else {}
    )
    boundary = (
        {(row["topic"], row["partition"]): row["offset"] for row in evidence["boundary"]}
        if policy == "identity"
        else {}
    )
    there, here = Log(lab, "primary"), Log(lab, "standby")
    copied = 0
    for topic in {row["topic"] for row in evidence["cut_off"]}:
        for partition in there.partitions(prefix + topic):
            copies = there.values(prefix + topic, partition, cut_off.get((topic, partition), 0))
            originals = here.values(topic, partition, boundary.get((topic, partition), 0))
            assert copies == originals[: len(copies)], f"{prefix}{topic}-{partition}"
            copied += len(copies)
    assert copied > 0


class Log:
    """Values of a cluster's partitions, read by a superuser."""

    def __init__(self, lab: Lab, alias: str) -> None:
        own = {
            "group.id": "t",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_uncommitted",
            "enable.partition.eof": True,
        }
        self._consumer = Consumer({**lab.client_properties(alias, "admin"), **own})
        self._topics = self._consumer.list_topics(timeout=30).topics

    def partitions(self, topic: str) -> list[int]:
        """Partitions of a topic; none where there is no such topic."""
        return sorted(self._topics[topic].partitions) if topic in self._topics else []

    def values(self, topic: str, partition: int, start: int) -> list[bytes | None]:
        """Values from an offset to the end."""
        self._consumer.assign([TopicPartition(topic, partition, start)])
        found: list[bytes | None] = []
        while True:
            for message in self._consumer.consume(10_000, 1.0):
                if message.error():
                    return found
                found.append(message.value())
