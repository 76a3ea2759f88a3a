"""The last check of `up`: write a test record on a flow's source, and read it on its target."""

from __future__ import annotations

import time
import uuid

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from lab.environment.brokers import admin_client
from lab.environment.progress import wait_until
from lab.environment.state import DEDICATED, Lab
from lab.errors import LabError

TOPIC = "lab-readiness"
PROOF_SECONDS = 120.0


def prove_replication(lab: Lab, source: str = "primary", target: str = "standby") -> str:
    """Write a record on the source as user `producer`, and wait until the target has it; return one line of text.

    The line states the seconds that replication took, or that the source refused the record.

    Raises:
        LabError: the target did not have the topic or the record in time.
    """
    _ensure_topic(lab, source)
    start, token = time.monotonic(), uuid.uuid4().hex.encode()
    refusal = _write(lab, source, token)
    if refusal:
        return f"replication is not proven: {source} refuses producers ({refusal})"
    _await_record(lab, source, target, token)
    return f"a record written on {source} was read on {target} after {time.monotonic() - start:.1f} s"


def _ensure_topic(lab: Lab, source: str) -> None:
    client = admin_client(lab, source)
    if TOPIC not in client.list_topics(timeout=10).topics:
        client.create_topics([NewTopic(TOPIC, num_partitions=1, replication_factor=-1)])[TOPIC].result(timeout=30)


def _write(lab: Lab, source: str, token: bytes) -> str:
    """Write one record on the source; return why it was refused, or "" if it was accepted."""
    refusals: list[str] = []
    producer = Producer({**lab.client_properties(source, "producer"), "log_level": 0, "message.timeout.ms": 30_000})

    def delivered(error: object, _: Message) -> None:
        if error:
            refusals.append(str(error))

    producer.produce(TOPIC, value=token, on_delivery=delivered)
    producer.flush(30)
    return "; ".join(refusals)


def _await_record(lab: Lab, source: str, target: str, token: bytes) -> None:
    topic = TOPIC if lab.load().policy == "identity" else f"{source}.{TOPIC}"
    watcher = admin_client(lab, target)
    wait_until(
        lambda: _exists(watcher.list_topics(topic, timeout=5).topics[topic]),
        f"topic {topic} on {target}",
        PROOF_SECONDS,
    )
    consumer = Consumer({
        **lab.client_properties(target, "consumer"), "group.id": "__lab_readiness", "enable.auto.commit": False,
        "isolation.level": "read_uncommitted", "auto.offset.reset": "earliest", "log_level": 0,
    })  # fmt: skip
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        wait_until(lambda: _next_is(consumer, token), f"the test record on {target}", PROOF_SECONDS, pause=0.0)
    except LabError as error:
        worker = DEDICATED if lab.load().runs_dedicated(target) else f"connect-{target}"
        raise LabError(f"{error}; read in {lab.logs}/{worker}.log why {source}->{target} mirrors nothing") from None
    finally:
        consumer.close()


def _exists(metadata: object) -> bool:
    return getattr(metadata, "error", None) is None


def _next_is(consumer: Consumer, token: bytes) -> bool:
    message = consumer.poll(0.5)
    return message is not None and message.error() is None and message.value() == token
