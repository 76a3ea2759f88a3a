"""Leaders of partitions move while log ends and records are read: brokers restart one after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.brokers.record import digest_of
from kafka_dr.hooks.brokers.record_reader import RecordReader

from lab.environment.production.profile import BROKERS
from lab.environment.state import Lab
from tests.faults.processes.looking import Looking, look_while_brokers_restart

ALIAS, TOPIC, PARTITIONS, RECORDS = "standby", "leaders-move", 120, 3
#: Brokers restart so often, one after the other.
ROUNDS = 2


class LookingAtLogs(Looking):
    """Reads the log ends, and the last record, of each partition again and again; counts what is read."""

    def __init__(self, cluster: KafkaCluster, reader: RecordReader, partitions: list[TopicPartition]) -> None:
        super().__init__()
        self._cluster, self._reader, self._partitions = cluster, reader, partitions
        self.ends, self.tails = Counter[int](), Counter[int]()

    def look(self) -> None:
        """Read log ends and last records."""
        self.ends.update(self._cluster.ends(self._partitions, timeout=60.0).values())
        tails = self._reader.last_records(self._partitions, take=digest_of)
        self.tails.update(record.offset for tail in tails.values() for record in tail.records)


def test_log_ends_and_tails_are_right_while_brokers_restart(fresh_lab: Callable[..., Path]) -> None:
    """An answer about a partition whose leader has just gone holds no offset: such an answer is asked for again."""
    lab = Lab(fresh_lab("identity", airflow=False, profile="production"))
    settings = lab.client_properties(ALIAS, "admin")
    cluster, places = KafkaCluster(ALIAS, settings), [TopicPartition(TOPIC, p) for p in range(PARTITIONS)]
    cluster.create_topic(TOPIC, PARTITIONS, len(BROKERS))
    producer = Producer(settings)
    for n in range(RECORDS):
        for p in range(PARTITIONS):
            producer.produce(TOPIC, b"%d" % n, partition=p)
    assert producer.flush(60) == 0
    looking = [LookingAtLogs(cluster, RecordReader(settings, ALIAS, keeps_client=True), places) for _ in range(2)]
    look_while_brokers_restart(lab, ALIAS, looking, ROUNDS)
    seen = sum((one.ends for one in looking), Counter[int]())
    errors = [dict(one.errors) for one in looking]
    print(f"log ends {dict(seen)}; tails {[dict(one.tails) for one in looking]}; errors {errors}", flush=True)
    assert set(seen) == {RECORDS} and seen[RECORDS] > 10 * PARTITIONS
    assert {offset for one in looking for offset in one.tails} == {RECORDS - 1}
    assert errors == [{}, {}]
