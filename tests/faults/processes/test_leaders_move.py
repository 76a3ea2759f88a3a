"""Leaders of partitions move while log ends and records are read: brokers restart one after the other."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import KafkaUnavailable
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.brokers.record import digest_of
from kafka_dr.hooks.brokers.record_reader import RecordReader

from lab.environment.production.profile import BROKERS
from lab.environment.state import Lab
from tests.faults.deployment.outages import restart_brokers

ALIAS, TOPIC, PARTITIONS, RECORDS = "standby", "leaders-move", 120, 3
#: Brokers restart so often, one after the other.
ROUNDS = 2


class Looking(threading.Thread):
    """Reads the log ends, and the last record, of each partition again and again; counts what is read."""

    def __init__(self, cluster: KafkaCluster, reader: RecordReader, partitions: list[TopicPartition]) -> None:
        super().__init__()
        self._cluster, self._reader, self._partitions = cluster, reader, partitions
        self.ends, self.tails, self.errors = Counter[int](), Counter[int](), Counter[str]()
        self.over = threading.Event()

    def run(self) -> None:
        """Read until `over` is set."""
        while not self.over.is_set():
            try:
                self.ends.update(self._cluster.ends(self._partitions, timeout=60.0).values())
                tails = self._reader.last_records(self._partitions, take=digest_of)
                self.tails.update(record.offset for tail in tails.values() for record in tail.records)
            except KafkaUnavailable as error:
                self.errors[str(error)] += 1


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
    looking = [Looking(cluster, RecordReader(settings, ALIAS, keeps_client=True), places) for _ in range(2)]
    for one in looking:
        one.start()
    try:
        for _ in range(ROUNDS):
            restart_brokers(lab, ALIAS, lambda: None)
            time.sleep(5.0)
    finally:
        for one in looking:
            one.over.set()
        for one in looking:
            one.join()
    seen = sum((one.ends for one in looking), Counter[int]())
    errors = [dict(one.errors) for one in looking]
    print(f"log ends {dict(seen)}; tails {[dict(one.tails) for one in looking]}; errors {errors}", flush=True)
    assert set(seen) == {RECORDS} and seen[RECORDS] > 10 * PARTITIONS
    assert {offset for one in looking for offset in one.tails} == {RECORDS - 1}
    assert errors == [{}, {}]
