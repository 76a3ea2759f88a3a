"""The recorder's clients of both clusters and of Connect, and one sample's view of a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.brokers.descriptions import TopicInfo
from kafka_dr.hooks.brokers.record import OffsetSpan
from kafka_dr.hooks.brokers.record_reader import RecordReader
from kafka_dr.hooks.connect.mirror_maker import MirrorMaker

#: A system that does not answer must not delay the next sample.
ASK_SECONDS = 4.0


#: The reverse flow's worker runs near the source: the whole site may be down.
_FLOW_BACK_SECONDS = 2.0


@dataclass(frozen=True)
class FlowBack:
    """The reverse flow, if it writes into the topics that the recorded flow mirrors.

    Attributes:
        worker: None if MirrorMaker 2 runs in dedicated mode.
    """

    worker: MirrorMaker | None
    connector: str

    def may_mirror(self) -> bool | None:
        """Whether the reverse flow may be mirroring now; None in dedicated mode, where no worker can be asked.

        Raises:
            ConnectUnavailable: the worker does not answer.
        """
        if self.worker is None:
            return None
        if self.connector not in self.worker.connectors(_FLOW_BACK_SECONDS):
            return False
        status = self.worker.status(self.connector, _FLOW_BACK_SECONDS)
        return not (status.stopped or status.paused)


@dataclass
class Access:
    """The recorder's clients; any request to the source may fail at any time.

    Attributes:
        worker: None if MirrorMaker 2 runs in dedicated mode, without a REST interface.
        flow_back: None if no flow writes back into the topics that the recorded flow mirrors.
    """

    source: KafkaCluster
    target: KafkaCluster
    source_records: RecordReader
    target_records: RecordReader
    worker: MirrorMaker | None
    flow_back: FlowBack | None = None


@dataclass(frozen=True)
class Side:
    """One cluster at one sample. If the cluster did not answer, `answered` is False and the mappings are empty."""

    answered: bool
    topics: Mapping[str, TopicInfo]
    spans: Mapping[TopicPartition, OffsetSpan]


SILENT = Side(False, {}, {})
