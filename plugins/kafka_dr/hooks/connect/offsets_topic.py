"""Reads and writes source offsets in an offsets topic, where no REST API sets them.

So it is with MirrorMaker 2 in dedicated mode, with Connect before 3.6, and with a service that offers no REST API.
Whoever writes must know that nothing runs that could store offsets of the connector: this module cannot tell.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.mirror_maker.offset_records import ConnectorRecords, OffsetRecord
from kafka_dr.domain.mirror_maker.offsets_topic_settings import OffsetsTopicSettings
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import ConnectUnavailable, NotReady, ReadBackFailed
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.brokers.record import Consumed
from kafka_dr.hooks.brokers.record_reader import RecordReader
from kafka_dr.hooks.brokers.record_writer import RecordWriter
from kafka_dr.hooks.connect.connector_state import ConnectorOffsets
from kafka_dr.hooks.connect.offset_changes import offset_differences

_POLL_SECONDS = 0.2
_REPLICAS = 3


class OffsetsTopic:
    """The topic, on a flow's target, in which the flow's workers or processes store source offsets.

    Args:
        settings: the topic's name, and how it is created if no process of the flow has ever run.
        cluster: client of the target.
        reader: returns a reader of committed records, as workers read them, on the target.
        writer: returns a writer to the target.
    """

    def __init__(
        self,
        settings: OffsetsTopicSettings,
        cluster: KafkaCluster,
        reader: Callable[[], RecordReader],
        writer: Callable[[], RecordWriter],
    ) -> None:
        self.name = settings.name
        self._settings, self._cluster, self._reader, self._writer = settings, cluster, reader, writer

    def __repr__(self) -> str:
        return f"OffsetsTopic({self.name!r}, {self._cluster.alias!r})"

    def offsets(self, connector: str, timeout: float = 60.0) -> ConnectorOffsets:
        """Return a source connector's last replicated offsets, as of its last flush; none if the topic is missing."""
        return ConnectorOffsets(self._records(connector, timeout).offsets())

    def change(
        self,
        connector: str,
        alias: str,
        last_replicated: Mapping[TopicPartition, int | None],
        timeout: float = 60.0,
    ) -> ConnectorOffsets:
        """Set last replicated offsets of a connector that does not run; return all its offsets, as read back.

        Only what differs is written, so that a second call writes nothing.

        Args:
            connector: the source connector's name.
            alias: the connector's `source.cluster.alias`.
            last_replicated: by source partition: X - 1 to start at X, None to start at 0. Partitions not given keep
                their offsets.
            timeout: seconds for all writes and reads together.

        Raises:
            NotReady: the topic is missing and must not be created, or has the connector's offsets only under keys that
                no worker looks up.
            ReadBackFailed: the topic does not hold the offsets as written, or others have changed.
        """
        ends_at = time.monotonic() + timeout
        stored = self._records(connector, timeout)
        if problem := self._problem_of(stored):
            raise NotReady(
                f"Offsets of {connector} cannot be set in topic {self.name} of {self._cluster.alias}",
                problem,
                "No offset was changed. Correct `offset.storage.topic` under `mirror_maker` of the flow in the"
                " topology. A worker with an `internal.key.converter` of its own needs Kafka 3.6 or newer",
            )
        if not stored.partitions:
            self._create()
            stored = self._records(connector, timeout)
        before, errors = stored.offsets(), list[str]()
        expected = {**before, alias: {**before.get(alias, {}), **last_replicated}}
        while (records := stored.changes(alias, last_replicated)) and time.monotonic() < ends_at:
            errors = self._writer().write_all(self.name, records, ends_at - time.monotonic())
            stored = self._records(connector, max(1.0, ends_at - time.monotonic()))
            time.sleep(_POLL_SECONDS if errors else 0)
        differences = offset_differences(expected, stored.offsets())
        if records or differences:
            raise ReadBackFailed(
                f"Topic {self.name} of {self._cluster.alias} does not hold the offsets that were written for"
                f" {connector}",
                first_few([*errors, *differences], 10),
                f"leave {connector} stopped. Find out which program writes to {self.name}, or why the brokers of"
                f" {self._cluster.alias} refuse: the connection's principal needs READ, WRITE and DESCRIBE on it",
            )
        return ConnectorOffsets(stored.offsets())

    def _records(self, connector: str, timeout: float) -> ConnectorRecords:
        info = self._cluster.topics([self.name]).get(self.name)
        if info is None:
            return ConnectorRecords(connector, 0)
        try:
            return ConnectorRecords.read(
                connector, len(info.partitions), self._reader().read_all(self.name, timeout, _offset_record)
            )
        except ValueError as error:
            raise ConnectUnavailable(
                f"Topic {self.name} of {self._cluster.alias} has offsets of {connector} that are not those of a"
                " MirrorMaker 2 source connector",
                str(error),
                f"compare `connectors` of the flow in the topology with the connector's name; if {connector} is a"
                " MirrorSourceConnector, find out which program wrote this entry",
            ) from None

    def problem(self, connector: str, timeout: float = 60.0) -> str:
        """Return why offsets of a connector cannot be set in this topic; "" if they can."""
        return self._problem_of(self._records(connector, timeout))

    def _problem_of(self, stored: ConnectorRecords) -> str:
        if stored.partitions:
            foreign = sorted(key.decode(errors="replace") for key in stored.foreign)
            wrong = "no worker of MirrorMaker 2 reads these keys, and there are no others"
            return "" if stored.by_alias or not foreign else f"{wrong}: {first_few(foreign, 3)}"
        beside = sorted(self._cluster.topics(self._settings.beside))
        if self._settings.may_create and not beside:
            return ""
        seen = f", though processes of the flow have created {first_few(beside)}" if beside else ""
        return f"topic {self.name} does not exist on {self._cluster.alias}{seen}"

    def _create(self) -> None:
        """Create the topic as the first process would; one that another process has created meanwhile is as good."""
        new = self._settings
        replicas = new.replicas or min(_REPLICAS, len(self._cluster.brokers()))
        self._cluster.create_topic(self.name, new.partitions, replicas, {"cleanup.policy": "compact"})


def _offset_record(message: Consumed) -> OffsetRecord:
    return OffsetRecord(message.partition(), message.key(), message.value())
