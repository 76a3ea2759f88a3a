"""Two librdkafka mock clusters with records in them, and a job's input folder on disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Producer
from kafka_dr_spark.contract.schemas import arrow_schema

BOUNDS = {"source_start": 0, "target_start": 0, "drained": True, "complete": True, "compare_timestamps": True}
BOUNDS |= dict.fromkeys(("other_writer", "source_compacted", "target_compacted", "recreated"), False)


class MockCluster:
    """A mock cluster; it lives as long as its producer."""

    def __init__(self) -> None:
        self._producer = Producer({"test.mock.num.brokers": 1, "linger.ms": 5, "log_level": 0})
        brokers = self._producer.list_topics(timeout=10).brokers.values()
        self.config = {"bootstrap.servers": ",".join(f"{broker.host}:{broker.port}" for broker in brokers)}

    def write(self, topic: str, partition: int, values: list[bytes | None], key: bytes | None = b"k") -> None:
        """Append records whose timestamp is their value's length plus 1000."""
        for value in values:
            stamp = 1000 + len(value or b"")
            self._producer.produce(topic, value, key, partition=partition, timestamp=stamp, headers={"h": b"1"})
            self._producer.poll(0)
        assert self._producer.flush(10) == 0


def bounds_row(topic: str, partition: int, cut_off: int, boundary: int, **changes: Any) -> dict[str, Any]:
    """Return a row of bounds with everything in order unless changed."""
    row = {"topic": topic, "partition": partition, "target_topic": topic, "cut_off": cut_off, "boundary": boundary}
    return {**BOUNDS, **row, **changes}


def returned_row(topic: str, partition: int, stable_end: int, target_end: int, **changes: Any) -> dict[str, Any]:
    """Return a row of a returned cluster of which nothing else is known unless changed."""
    row = {"topic": topic, "partition": partition, "stable_end": stable_end, "target_end": target_end}
    return {**row, "source_from": 0, "target_from": 0, "proven_end": None, "replicated": None, **changes}


def write_input(folder: Path, positions: list[tuple], syncs: list[tuple], bounds: list[dict], **job: Any) -> Path:
    """Write a job's input: positions (group, topic, partition, position), syncs (topic, partition, u, d, sequence)."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [(*row, 1_700_000_000_000, "earliest", False) for row in positions]
    for name, data in (("positions", rows), ("syncs", syncs)):
        schema = arrow_schema(name)
        columns = [pa.array(column, field.type) for column, field in zip(zip(*data), schema)]
        pq.write_table(pa.table(columns, schema=schema) if data else schema.empty_table(), folder / f"{name}.parquet")
    pq.write_table(pa.Table.from_pylist(bounds, schema=arrow_schema("bounds")), folder / "bounds.parquet")
    document = {"isolation": "read_uncommitted", "source_readable": True, **job}
    (folder / "job.json").write_text(json.dumps(document))
    return folder
