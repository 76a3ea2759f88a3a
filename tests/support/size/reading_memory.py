"""What reading takes of memory, in MB: `python -m tests.support.size.reading_memory WHAT`, settings on standard input.

Each reading is a process of its own, whose memory is counted from the moment at which all modules are imported.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from confluent_kafka import Producer
from kafka_dr.actions.fencing.stable_log_ends import newest_records
from kafka_dr.actions.scope.internal_topics import checkpoints_of, last_offset_syncs, offset_syncs_of
from kafka_dr.actions.spark_jobs import write_portions
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.mirror_maker.mirror_records import Checkpoint, OffsetSync, encode_checkpoint, encode_offset_sync
from kafka_dr.domain.mirror_maker.naming import NamingSpec, naming_of
from kafka_dr.hooks.brokers.anchor_topic import AnchorTopic
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.brokers.record import digest_of, record_of
from kafka_dr.hooks.brokers.record_reader import RecordReader

ROOT = Path(__file__).resolve().parents[3]
LARGE, SYNCS, CHECKPOINTS = "large", "mm2-offset-syncs.primary.internal", "primary.checkpoints.internal"
RECORD_BYTES = 1_000_000
BULK = {"linger.ms": 20, "batch.size": 1_000_000, "message.max.bytes": 2_000_000, "compression.type": "none"}


def grown(what: str, settings: Mapping[str, Any]) -> int:
    """Return by how many MB the resident memory of a process grew at most that read `what`, a name in READINGS."""
    command = [sys.executable, "-m", "tests.support.size.reading_memory", what]
    done = subprocess.run(
        command, cwd=ROOT, input=json.dumps(dict(settings)), stdout=subprocess.PIPE, text=True, check=True
    )
    return int(done.stdout)


# -- what is read ------------------------------------------------------------------------------------------------------


def write_large(settings: Mapping[str, Any], partitions: int, records: int, topic: str = LARGE) -> None:
    """Write records of 1 MB to each partition of a topic, which is created."""
    KafkaCluster("primary", settings).create_topic(topic, partitions, 1, {"max.message.bytes": "2000000"})
    value = hashlib.shake_256(b"large").digest(RECORD_BYTES)
    _write(settings, ((topic, p, b"k", value) for _ in range(records) for p in range(partitions)))


def write_syncs(settings: Mapping[str, Any], syncs: int, topic: str = "orders") -> None:
    """Write offset syncs of 100 partitions of a topic to the offset-syncs topic, which is created.

    Each takes about 45 bytes and the topic's name.
    """
    KafkaCluster("primary", settings).create_topic(SYNCS, 1, 1, {"segment.bytes": str(2**31 - 1)})
    made = (encode_offset_sync(OffsetSync(topic, n % 100, n, n)) for n in range(syncs))
    _write(settings, ((SYNCS, 0, key, value) for key, value in made))


def write_checkpoints(settings: Mapping[str, Any], checkpoints: int) -> None:
    """Write checkpoints of 1,000 groups and partitions to the checkpoints topic, which is created."""
    KafkaCluster("primary", settings).create_topic(CHECKPOINTS, 1, 1)
    made = (encode_checkpoint(Checkpoint(f"group-{n % 1000}", "orders", 0, n, n)) for n in range(checkpoints))
    _write(settings, ((CHECKPOINTS, 0, key, value) for key, value in made))


def _write(settings: Mapping[str, Any], records: Iterator[tuple[str, int, bytes, bytes]]) -> None:
    producer = Producer({**settings, **BULK, "queue.buffering.max.kbytes": 65_536})
    produce_all(producer, records)
    if producer.flush(300):
        raise RuntimeError("not all records were written")


def produce_all(
    producer: Producer, records: Iterable[tuple[str, int, bytes | None, bytes]], rate: float | None = None
) -> None:
    """Give (topic, partition, key, value) to a producer, at most ``rate`` a second; wait while its queue is full."""
    began = time.monotonic()
    for number, (topic, partition, key, value) in enumerate(records):
        while True:
            try:
                producer.produce(topic, value, key, partition)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 1_000 == 0:
            producer.poll(0)
            if rate and (early := number / rate - (time.monotonic() - began)) > 0:
                time.sleep(early)


# -- how it is read ----------------------------------------------------------------------------------------------------


def tails(settings: Mapping[str, Any]) -> None:
    """Read the last record of each partition of LARGE."""
    RecordReader(settings).last_records(_partitions(settings), take=digest_of)


def newest(settings: Mapping[str, Any]) -> None:
    """Describe the newest record of each partition of LARGE, as of a fence under which records still arrive."""
    if len(newest_records(_run(settings), dict.fromkeys(_partitions(settings), 0))) != len(_partitions(settings)):
        raise RuntimeError("not every partition's newest record was described")


def anchors(settings: Mapping[str, Any]) -> None:
    """Read the topic of the journal's anchors, which others have filled with large records."""
    AnchorTopic(settings, "primary").newest(lambda value: None, timeout=60)


def fingerprints(settings: Mapping[str, Any]) -> None:
    """Read all records of LARGE, for their fingerprints."""
    reader = RecordReader(settings)
    list(reader.scan(reader.spans(_partitions(settings)), take=lambda message: record_of(message).fingerprint()))


def _partitions(settings: Mapping[str, Any]) -> list[TopicPartition]:
    topic = KafkaCluster("primary", settings).topics([LARGE])[LARGE]
    return [TopicPartition(LARGE, p) for p in topic.partitions]


def syncs_to_file(settings: Mapping[str, Any]) -> None:
    """Write the input file of a job with all offset syncs."""
    with tempfile.TemporaryDirectory() as folder:
        write_portions(Path(folder), "syncs", offset_syncs_of(_run(settings)))


def last_syncs(settings: Mapping[str, Any]) -> None:
    """Read the last offset sync of each partition."""
    last_offset_syncs(_run(settings))


def checkpoints(settings: Mapping[str, Any]) -> None:
    """Read the newest checkpoint of each group and partition."""
    checkpoints_of(_run(settings))


def _run(settings: Mapping[str, Any]) -> Any:
    """What of a run names the internal topics of the flow primary -> standby, and reads them on one broker."""
    connectors = SimpleNamespace(source_config=lambda: {"offset-syncs.topic.location": "target"})
    return SimpleNamespace(
        flow=SimpleNamespace(source="primary", target="standby"),
        request=SimpleNamespace(source="primary", target="standby"),
        naming=naming_of(NamingSpec("identity"), ["primary", "standby"]),
        mirror_maker=lambda flow: connectors,
        systems=SimpleNamespace(reader=lambda alias: RecordReader(settings), target=KafkaCluster("standby", settings)),
    )


READINGS: dict[str, Callable[[Mapping[str, Any]], None]] = {
    reading.__name__: reading
    for reading in (tails, newest, anchors, fingerprints, syncs_to_file, last_syncs, checkpoints)
}


def resident(field: str) -> int:
    """Return a figure of this process's memory in MB: VmRSS, or VmHWM, its peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) // 1024


if __name__ == "__main__":
    stated = json.load(sys.stdin)
    before = resident("VmRSS")
    # The peak counts from here: importing took more than it kept.
    Path("/proc/self/clear_refs").write_text("5")
    READINGS[sys.argv[1]](stated)
    print(resident("VmHWM") - before)
