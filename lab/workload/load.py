"""Run the load: producers in separate processes, which ignore the drain hook and the routing record.

The producers write until the load is stopped. While the cluster refuses their writes, the producers try again a few
times a second, so that a gap in the fence would be observed. Every acknowledgement is stored with its time.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from lab.install.jars import PROJECT
from lab.workload.ground_truth import Acknowledgement, GroundTruth, content_digest
from lab.workload.load_worker import load_id, load_value
from lab.workload.topic_shapes import WORDS

ROW = np.dtype([("number", "<i8"), ("topic", "<i8"), ("partition", "<i8"), ("offset", "<i8"), ("at", "<i8")])
STOP_SECONDS = 30.0


class Load:
    """Starts and stops producers that write at a constant rate to topics that only these producers write.

    Args:
        status: the lab's status document.
        folder: folder to which the processes write acknowledgements and counts.
        rate: records per second of all processes together.
        seed: seed of the topics' names.
        topics: partition counts of the topics by name; None: two topics with names from the seed.
        workers: number of processes.
        cluster: alias of the cluster to write to.
        first: number of the first process. Two loads on the same topics need different numbers, because the numbers are
            part of the record ids.
        idempotent: whether all producers are idempotent; else every second one is. A producer that is not idempotent
            may write a record twice when a partition's leader moves.
    """

    def __init__(
        self, status: Mapping[str, Any], folder: Path, rate: int = 20_000, seed: int = 1,
        topics: Mapping[str, int] | None = None, workers: int = 2, cluster: str = "primary", first: int = 0,
        idempotent: bool = False,
    ) -> None:  # fmt: skip
        rng = random.Random(seed)
        self.folder = folder
        self.cluster = cluster
        self.topics = dict(
            topics
            or {
                f"{word}-load-{rng.randrange(16**4):04x}": count
                for word, count in zip(rng.sample(WORDS, 2), (6, 4), strict=True)
            }
        )
        self._rate = rate / workers
        self._numbers, self._idempotent = range(first, first + workers), idempotent
        self._properties = status["clusters"][cluster]["client_properties"]
        self._processes: list[subprocess.Popen[str]] = []
        self._admin = AdminClient(dict(self._properties["admin"]))

    def create_topics(self) -> None:
        """Create the load's topics on the cluster; the last topic has LogAppendTime."""
        configs: list[dict[str, str]] = [{} for _ in self.topics]
        configs[-1] = {"message.timestamp.type": "LogAppendTime"}
        new = [
            NewTopic(name, count, -1, config=config)
            for (name, count), config in zip(self.topics.items(), configs, strict=True)
        ]
        for future in self._admin.create_topics(new, request_timeout=30).values():
            future.result()

    def start(self) -> None:
        """Start the processes; each gets its task, with credentials, on its standard input."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for worker in self._numbers:
            log = (self.folder / f"load-{worker}.log").open("w", encoding="utf-8")
            argv = [sys.executable, "-m", "lab.workload.load_worker"]
            process = subprocess.Popen(
                argv, cwd=PROJECT, stdin=subprocess.PIPE, stdout=log, stderr=log, text=True, start_new_session=True
            )
            log.close()
            self._processes.append(process)
            task = {
                "worker": worker,
                "rate": self._rate,
                "topics": self.topics,
                "folder": str(self.folder),
                "properties": self._properties["producer"],
                "idempotent": self._idempotent or worker % 2 == 1,
            }
            # The pipe stays open: if this process ends, the pipe ends, and the load process stops.
            pipe = cast("IO[str]", process.stdin)
            pipe.write(json.dumps(task) + "\n")
            pipe.flush()

    def counts(self) -> dict[str, int]:
        """Return how many records were `acknowledged`, `refused` (by authorization) and `failed` so far."""
        totals = {"acknowledged": 0, "refused": 0, "failed": 0}
        for path in self.folder.glob("load-*.counts.json"):
            for name, count in json.loads(path.read_text(encoding="utf-8")).items():
                totals[name] += count
        return totals

    def acknowledgements(self) -> list[Acknowledgement]:
        """Return the acknowledgements stored so far: all acknowledgements, once the load is stopped."""
        names = list(self.topics)
        acknowledged = []
        for path in sorted(self.folder.glob("load-*.acks")):
            worker = int(path.stem.split("-")[1])
            for number, topic, partition, offset, at in np.fromfile(path, ROW).tolist():
                digest = content_digest(None, load_value(worker, number))
                acknowledged.append(
                    Acknowledgement(names[topic], partition, offset, digest, load_id(worker, number), at)
                )
        return acknowledged

    def ends(self) -> dict[tuple[str, int], int]:
        """Return the current log end of each partition of the load's topics on the cluster, by (topic, partition)."""
        spec = OffsetSpec.latest()
        requests = {TopicPartition(topic, p): spec for topic, count in self.topics.items() for p in range(count)}
        futures = self._admin.list_offsets(requests, request_timeout=30)
        return {(partition.topic, partition.partition): future.result().offset for partition, future in futures.items()}

    def place_groups(self, truth: GroundTruth, count: int, rng: random.Random) -> None:
        """Create `count` groups: commit random positions on all load topics, and add these positions to `truth`."""
        for number in range(count):
            positions = {place: rng.randint(0, end) for place, end in self.ends().items()}
            group = f"under-load-{number}-{rng.randrange(16**4):04x}"
            offsets = [TopicPartition(topic, partition, offset) for (topic, partition), offset in positions.items()]
            future = self._admin.alter_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(group, offsets)], request_timeout=30
            )[group]
            if any(place.error for place in future.result().topic_partitions):
                raise RuntimeError(
                    f"the positions of group {group} could not be committed on {self.cluster}; read the broker's log"
                )
            for (topic, partition), offset in positions.items():
                truth.place(group, topic, partition, offset)

    def stop(self) -> None:
        """Stop the processes and wait until all have ended; the files with acknowledgements are then complete."""
        for process in self._processes:
            process.send_signal(signal.SIGTERM)
        for process in self._processes:
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            cast("IO[str]", process.stdin).close()
        self._processes = []
