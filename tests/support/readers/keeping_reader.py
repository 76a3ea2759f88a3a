"""A reader without a consumer group, which keeps its positions in a file, as Flink keeps them in a savepoint."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from lab.checker.readers import ClusterReader
from lab.environment.progress import wait_until
from lab.environment.state import Lab
from tests.faults.support.stepping import ROOT, product_environment
from tests.support.lab_clients import client

SECONDS = 60.0
PARTITIONS = 3
Place = tuple[str, int]


class WrittenRecords:
    """Writes records with ids of their own, and knows all ids.

    Attributes:
        ids: by partition, in the order in which they were written.
    """

    def __init__(self, lab: Lab, topic: str) -> None:
        self.lab, self.topic = lab, topic
        self.ids: dict[int, list[str]] = {partition: [] for partition in range(PARTITIONS)}

    def write(self, alias: str, count: int) -> None:
        """Write so many records to each partition, on one cluster, and wait until all are acknowledged."""
        refused: list[Any] = []
        producer = Producer({**client(self.lab, alias, "producer"), "acks": "all", "linger.ms": 5})
        for partition, ids in self.ids.items():
            for _ in range(count):
                ids.append(f"{partition}/{len(ids)}")
                producer.produce(
                    self.topic,
                    ids[-1].encode(),
                    partition=partition,
                    on_delivery=lambda error, _: refused.append(error) if error else None,
                )
        assert producer.flush(SECONDS) == 0 and not refused, refused[:3]

    def await_copies(self, remote: str, at_least: Mapping[int, int]) -> dict[int, int]:
        """Wait until each partition on the standby has a last record that is the last one written; return log ends."""
        reader = ClusterReader("standby", self.lab.status())
        places = [(remote, partition) for partition in self.ids]

        def copied() -> dict[int, int] | None:
            ends = {partition: end for (_, partition), end in reader.ends(places).items()}
            return ends if all(ends[p] >= at_least[p] for p in ends) and self._ends_with_last(remote, ends) else None

        return wait_until(copied, "all records on the standby", SECONDS)

    def _ends_with_last(self, remote: str, ends: Mapping[int, int]) -> bool:
        last = KeepingReader(self.lab)
        last.read_on(
            "standby", {(remote, p): end - 1 for p, end in ends.items()}, {(remote, p): e for p, e in ends.items()}
        )
        return last.seen == {ids[-1]: 1 for ids in self.ids.values()}


class KeepingReader:
    """Reads by assignment alone.

    Attributes:
        positions: the next offset to read, by partition of the cluster where it reads.
        seen: how often it was given the record of each id.
    """

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self.positions: dict[Place, int] = {}
        self.seen: Counter[str] = Counter()

    def read_on(self, alias: str, begin: Mapping[Place, int], ends: Mapping[Place, int]) -> None:
        """Read from these offsets up to these (exclusive), and keep the positions."""
        settings = {"group.id": "no-group", "enable.auto.commit": False, "isolation.level": "read_uncommitted"}
        consumer = Consumer({**client(self._lab, alias, "consumer"), **settings, "auto.offset.reset": "error"})
        self.positions = dict(begin)
        consumer.assign([TopicPartition(*place, offset) for place, offset in begin.items() if offset < ends[place]])

        def done() -> bool:
            for message in consumer.consume(500, 0.2):
                assert message.error() is None, message.error()
                place = message.topic(), message.partition()
                if message.offset() < ends[place]:
                    self.seen[message.value().decode()] += 1
                    self.positions[place] = message.offset() + 1
            return all(self.positions[place] >= ends[place] for place in begin)

        try:
            wait_until(done, f"the records up to {dict(ends)}", SECONDS)
        finally:
            consumer.close()

    def save(self, path: Path) -> None:
        """Write the positions as the command reads them."""
        rows = [{"topic": t, "partition": p, "offset": offset} for (t, p), offset in self.positions.items()]
        path.write_text(json.dumps(rows))


def translated_by_command(lab: Lab, procedure_id: str, given: Path, made: Path) -> tuple[int, list[dict[str, Any]]]:
    """Run the command in a process of its own; return its exit code, and what it has written."""
    argv = [sys.executable, "-m", "kafka_dr.commands.translate_positions", procedure_id, str(given), str(made)]
    done = subprocess.run(
        argv, env=product_environment(lab), cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )
    print(done.stdout[-2_000:], done.stderr[-4_000:], flush=True)
    return done.returncode, json.loads(made.read_text()) if made.exists() else []
