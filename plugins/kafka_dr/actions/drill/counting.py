"""Count a drill's records on the cluster where its clients are."""

from __future__ import annotations

from kafka_dr.actions.drill.ledger import DrillLedger
from kafka_dr.domain.drill.records import RecordCount, compare_numbers, record_number
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.procedure.drill_run import TOPICS, PrivateInstallation
from kafka_dr.procedure.systems import Systems

_READ_SECONDS = 120.0


def count_records(systems: Systems, private: PrivateInstallation, alias: str) -> RecordCount:
    """Read all of the drill's records on one cluster, and compare them with those that were acknowledged before.

    Args:
        systems: of the drill's private installation.
        alias: the cluster.
    """
    # The ledger first: what is acknowledged while the logs are read may be missing in them.
    written = set(DrillLedger(private.folder).numbers())
    naming, own = private.topology.names, [private.names.topic(name) for name in TOPICS]
    others = [other for other in (private.source, private.target) if other != alias]
    names = {*own, *(naming.remote(other, topic) for other in others for topic in own)}
    reader = systems.reader(alias)
    info = systems.cluster(alias).topics(names)
    spans = reader.spans(TopicPartition(topic, number) for topic in info for number in info[topic].partitions)
    return compare_numbers(written, (record_number(record.value) for record in reader.scan(spans, _READ_SECONDS)))
