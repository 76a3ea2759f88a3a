"""The lab of a benchmark: real brokers with 3 GB of heap, real MirrorMaker 2, and bulk data on them."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.mirror_maker.mirror_records import decode_offset_syncs
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.brokers.record_reader import RecordReader
from kafka_dr.hooks.connect.mirror_maker import MirrorMaker

from lab.environment.bring_up import up
from lab.environment.progress import ProgressLines
from lab.environment.state import Lab
from lab.environment.take_down import down
from tests.benchmarks.measuring import say
from tests.support.size.reading_memory import produce_all

SOURCE, TARGET = "primary", "standby"
HEAP = "3g"
SYNCS, CHECKPOINTS = f"mm2-offset-syncs.{SOURCE}.internal", f"{SOURCE}.checkpoints.internal"
FLOW = tuple(f"{SOURCE}-to-{TARGET}-{kind}" for kind in ("source", "checkpoint", "heartbeat"))
BATCH = {"linger.ms": 20, "batch.size": 262_144, "queue.buffering.max.messages": 500_000, "log_level": 3}


class Clusters:
    """Both clusters of a lab that is up."""

    def __init__(self, state: Path) -> None:
        self.lab = Lab(state)
        self.status = self.lab.status()
        self.scratch = state / "bench"
        self.scratch.mkdir(exist_ok=True)

    def settings(self, alias: str, principal: str = "admin") -> dict[str, Any]:
        """Return librdkafka's settings of one principal."""
        return dict(self.status["clusters"][alias]["client_properties"][principal])

    def cluster(self, alias: str) -> KafkaCluster:
        """Return the product's own hook."""
        return KafkaCluster(alias, self.settings(alias))

    def java_properties(self, alias: str) -> Path:
        """Write the settings as a Java client wants them, and return the private file."""
        ours = self.settings(alias)
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        login = f'{module} required username="{ours["sasl.username"]}" password="{ours["sasl.password"]}";'
        lines = [f"{key}={ours[key]}" for key in ("bootstrap.servers", "security.protocol", "sasl.mechanism")]
        file = self.scratch / f"{alias}.properties"
        file.touch(mode=0o600)
        file.write_text("\n".join([*lines, f"sasl.jaas.config={login}", ""]))
        return file

    def create_topics(self, alias: str, topics: Mapping[str, int], **configs: str) -> None:
        """Create topics with their partitions."""
        admin = AdminClient({**self.settings(alias), "log_level": 3})
        new = [NewTopic(name, count, 1, config=configs) for name, count in topics.items()]
        for future in admin.create_topics(new, request_timeout=60, operation_timeout=60).values():
            future.result()

    def write(
        self, alias: str, records: Iterable[tuple[str, int, bytes | None, bytes]], rate: float | None = None
    ) -> float:
        """Write (topic, partition, key, value) in bulk, at most ``rate`` a second; return the seconds."""
        refused: list[str] = []

        def delivered(error: Any, _: Message) -> None:
            if error:
                refused.append(str(error))

        producer, began = (
            Producer({**self.settings(alias), **BATCH, "enable.idempotence": True, "on_delivery": delivered}),
            time.monotonic(),
        )
        produce_all(producer, records, rate)
        left = producer.flush(300)
        if refused or left:
            raise RuntimeError(f"{len(refused) + left} records were not written to {alias}: {refused[:1]}")
        return time.monotonic() - began

    def mirrored_name(self, topic: str) -> str:
        """Return the name that a topic of the source has on the target."""
        return topic if self.status["policy"] == "identity" else f"{SOURCE}.{topic}"

    def ends(self, alias: str, topics: Mapping[str, int]) -> dict[TopicPartition, int]:
        """Return the log ends of topics."""
        return self.cluster(alias).ends(
            [TopicPartition(name, p) for name, count in topics.items() for p in range(count)]
        )

    def await_mirrored(self, topics: Mapping[str, int], seconds: float = 600) -> float:
        """Wait until MirrorMaker 2 has brought both sides to the same ends; return the seconds."""
        began, target = time.monotonic(), self.cluster(TARGET)
        counts = {self.mirrored_name(name): count for name, count in topics.items()}
        wanted = {
            TopicPartition(self.mirrored_name(name), p): end for (name, p), end in self.ends(SOURCE, topics).items()
        }
        while True:
            there = target.topics(list(counts))
            if {n: len(t.partitions) for n, t in there.items()} == counts and target.ends(list(wanted)) == wanted:
                return time.monotonic() - began
            if time.monotonic() - began > seconds:
                raise TimeoutError(
                    f"MirrorMaker 2 has not mirrored {', '.join(list(topics)[:3])} within {seconds:.0f} s"
                )
            time.sleep(0.5)

    def stop_mirroring(self) -> None:
        """Stop all forward connectors, so that nothing of theirs runs while something is measured."""
        mirror = MirrorMaker(self.status["clusters"][TARGET]["connect_url"])
        for connector in reversed(FLOW):
            mirror.stop(connector)

    def syncs(self) -> pd.DataFrame:
        """Return every offset sync that MirrorMaker 2 wrote, as the job wants them."""
        records = list(RecordReader(self.settings(TARGET), TARGET).read_all(SYNCS))
        decoded = decode_offset_syncs([r.key for r in records], [r.value for r in records])
        frame = pd.DataFrame(decoded.records, columns=["topic", "partition", "upstream", "downstream"])
        frame = frame.assign(sequence=[r.offset for r in records]).astype(
            {"partition": "int32"} | dict.fromkeys(("upstream", "downstream", "sequence"), "int64")
        )
        return frame[frame["upstream"] >= 0]


@contextmanager
def clusters(airflow: bool = False, policy: str = "identity") -> Iterator[Clusters]:
    """Bring a lab up with brokers and Connect workers of 3 GB and the naming of a policy, and take it down again."""
    os.environ |= dict.fromkeys(("SWITCHBACK_BROKER_HEAP", "SWITCHBACK_CONNECT_HEAP"), HEAP)
    state = Path(tempfile.mkdtemp(prefix="switchback-bench-"))
    try:
        up(state, airflow=airflow, policy=policy, progress=ProgressLines(quiet=True))
        say(f"  lab is up, brokers and Connect workers with {HEAP} of heap")
        yield Clusters(state)
    finally:
        down(state, ProgressLines(quiet=True))
        shutil.rmtree(state, ignore_errors=True)
