"""An offsets topic in memory, behind the interfaces by which `OffsetsTopic` reads and writes it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.mirror_maker.offset_records import OffsetRecord, offset_key, offset_value
from kafka_dr.domain.mirror_maker.offsets_topic_settings import OffsetsTopicSettings
from kafka_dr.hooks.brokers.record import Record
from kafka_dr.hooks.connect.offsets_topic import OffsetsTopic

from tests.support.clusters import Cluster, Message

FIXTURES = Path(__file__).parents[2] / "fixtures" / "offsets_topics"


def written_by(worker: str) -> tuple[int, list[OffsetRecord]]:
    """Return the number of partitions and the records of a real worker's topic: `connect-2.8.2`, `dedicated-4.3.1`."""
    content = json.loads((FIXTURES / f"{worker}.json").read_text(encoding="utf-8"))
    records = [
        OffsetRecord(partition, key.encode(), None if value is None else value.encode())
        for partition, key, value in content["records"]
    ]
    return content["partitions"], records


def keep_offsets(cluster: Cluster, name: str, connector: str, alias: str, last: Mapping[TopicPartition, int]) -> None:
    """Create an offsets topic of one partition on a bench's cluster, with last replicated offsets of a connector."""
    cluster.create_topic(name, 1)
    records = cluster.internal.setdefault(name, [])
    records += [(offset_key(connector, alias, tp), offset_value(n) or b"") for tp, n in last.items()]


class StoredTopic:
    """The topic `offsets` of the cluster `east`.

    Attributes:
        records: what the topic holds, in the order written.
        partitions: their number; 0: the topic does not exist.
        requests: number of writes so far.
        others: other topics of the cluster.
        created: topics that were created, with their settings.
        refuses: returns errors of a write that stores nothing; None: the write is done.
    """

    alias = "east"

    def __init__(self, partitions: int = 5, records: Iterable[OffsetRecord] = (), others: Iterable[str] = ()) -> None:
        self.partitions, self.records, self.requests = partitions, list(records), 0
        self.others, self.created = set(others), list[tuple[Any, ...]]()
        self.refuses: Callable[[], list[str] | None] = lambda: None
        self.afterwards: Callable[[], object] = lambda: None

    def client(self, **settings: Any) -> OffsetsTopic:
        """Return the hook under test; the topic is another than dedicated mode's own, unless `settings` say so."""
        named = OffsetsTopicSettings(**{"name": "offsets", "group": None, "may_create": False, **settings})
        return OffsetsTopic(named, self, lambda: self, lambda: self)  # type: ignore[arg-type]

    def topics(self, names: Iterable[str]) -> dict[str, Any]:
        """Return the descriptions of those of these topics that exist."""
        existing = {*self.others, *(["offsets"] if self.partitions else [])}
        return {name: SimpleNamespace(partitions=range(self.partitions)) for name in names if name in existing}

    def brokers(self) -> list[int]:
        """Return two brokers."""
        return [1, 2]

    def create_topic(self, name: str, partitions: int, replicas: int, configs: dict[str, str]) -> None:
        """Create the topic."""
        self.created.append((name, partitions, replicas, configs))
        self.partitions = partitions

    def read_all(self, topic: str, timeout: float, take: Callable[[Any], Any]) -> Iterator[Any]:
        """Yield what `take` makes of each record."""
        assert topic == "offsets" and timeout > 0
        for offset, record in enumerate(list(self.records)):
            yield take(Message(Record(topic, record.partition, offset, None, False, record.key, record.value, ())))

    def write_all(self, topic: str, records: Iterable[OffsetRecord], timeout: float) -> list[str]:
        """Store the records, unless the test refuses."""
        assert topic == "offsets" and timeout > 0
        self.requests += 1
        errors = self.refuses()
        if errors is None:
            self.records += records
        self.afterwards()
        return errors or []
