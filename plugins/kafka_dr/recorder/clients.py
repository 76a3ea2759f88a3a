"""The recorder's clients of source, target and Connect, and what one sample read of a cluster (`Side`).

Source and target are the clusters of the recorded flow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.brokers.descriptions import TopicInfo
from kafka_dr.hooks.brokers.record import OffsetSpan
from kafka_dr.hooks.brokers.record_reader import RecordReader
from kafka_dr.hooks.connect.flow_connectors import FlowConnectors

#: Limit of one request, in seconds: a system that does not answer must not delay the next sample.
ASK_SECONDS = 4.0
#: Partitions, or groups, about which a cluster under load answers within a second, besides.
_ANSWERED_A_SECOND = 1_500


#: Limit of a request to the reverse flow's worker, in seconds: the worker runs near the source, whose site may be down.
_FLOW_BACK_SECONDS = 2.0


def ask_seconds(count: int) -> float:
    """Return the limit of requests about so many partitions or groups, in seconds.

    Without it, a cluster of tens of thousands of partitions would never answer in time, and count as silent for ever.
    """
    return ASK_SECONDS + count / _ANSWERED_A_SECOND


@dataclass(frozen=True)
class FlowBack:
    """The reverse flow (target to source), which writes into the source topics that the recorded flow mirrors.

    Attributes:
        connectors: the reverse flow's connectors; None if its MirrorMaker 2 runs in dedicated mode.
    """

    connectors: FlowConnectors | None

    def may_mirror(self) -> bool | None:
        """Whether a connector of the reverse flow may be mirroring now; None in dedicated mode, without a REST API.

        Raises:
            ConnectUnavailable: the worker does not answer.
        """
        if self.connectors is None:
            return None
        return any(not status.paused for status in self.connectors.not_stopped(_FLOW_BACK_SECONDS))


@dataclass
class Access:
    """The recorder's clients; any request to the source may fail at any time.

    Attributes:
        source, target: the clusters of the recorded flow.
        source_records, target_records: readers of records on these clusters.
        connectors: the recorded flow's connectors; None if MirrorMaker 2 runs in dedicated mode, without a REST API.
        flow_back: the reverse flow; None if no flow writes into the source topics that the recorded flow mirrors.
    """

    source: KafkaCluster
    target: KafkaCluster
    source_records: RecordReader
    target_records: RecordReader
    connectors: FlowConnectors | None
    flow_back: FlowBack | None = None


@dataclass(frozen=True)
class Side:
    """Topics and logs of one cluster, as one sample read them.

    Attributes:
        answered: whether the cluster answered; if not, both mappings are empty.
        topics: all topics of the cluster, by name.
        spans: log start and log end of each partition that the flow mirrors (on the target: into which it mirrors).
        leaderless: such partitions without leader, which could not be read.
        cluster_id: the cluster's id, None if it did not answer.
    """

    answered: bool
    topics: Mapping[str, TopicInfo]
    spans: Mapping[TopicPartition, OffsetSpan]
    cluster_id: str | None = None
    leaderless: tuple[TopicPartition, ...] = ()


SILENT = Side(False, {}, {})
