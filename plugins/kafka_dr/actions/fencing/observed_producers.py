"""Ask the source's brokers which producers they know: behind a fence all of them stand still.

Brokers know idempotent and transactional producers only, which is what Kafka's clients are by default.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.kafka_model.transactions import Producer
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import KafkaUnavailable
from kafka_dr.procedure.entries import ObservedProducers
from kafka_dr.procedure.run import Run

Producers = Mapping[TopicPartition, list[Producer]] | KafkaUnavailable


def list_producers(procedure: Run, partitions: list[TopicPartition]) -> Producers:
    """Return the producers that the leaders of these source partitions list; the error if a leader does not."""
    source = procedure.systems.source
    try:
        leaders = source.metadata().leaders
        led = {tp: leader for tp in partitions if (leader := leaders.get(tp.topic, {}).get(tp.partition)) is not None}
        return source.every_broker.producers(led)
    except KafkaUnavailable as error:
        return error


def describe_writers(before: Producers, after: Producers) -> str:
    """Return as the end of a sentence which producers wrote between two lists; empty if none did, or none is listed."""
    if isinstance(before, KafkaUnavailable) or isinstance(after, KafkaUnavailable):
        return ""
    writers = [
        f"{tp}: {producer.named(None)}"
        for tp, producers in sorted(after.items())
        for producer in producers
        if producer not in before.get(tp, [])
    ]
    return f"; by {first_few(writers, separator='; ')}" if writers else ""


def sum_up_producers(producers: Producers) -> ObservedProducers:
    """Return the figures about listed producers for the journal."""
    if isinstance(producers, KafkaUnavailable):
        return ObservedProducers(0, problem=f"{producers.reason}: {producers.seen}")
    listed = [producer for of_partition in producers.values() for producer in of_partition]
    newest = max((producer.last_ms for producer in listed if producer.last_ms is not None), default=None)
    at = None if newest is None else datetime.fromtimestamp(newest / 1000, UTC).isoformat(timespec="milliseconds")
    return ObservedProducers(len(listed), at)
