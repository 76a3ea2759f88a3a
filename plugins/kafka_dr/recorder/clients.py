"""What the recorder reads with, and what one look saw of a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.brokers.descriptions import TopicInfo
from kafka_dr.hooks.brokers.record import OffsetSpan
from kafka_dr.hooks.brokers.record_reader import RecordReader
from kafka_dr.hooks.connect.mirror_maker import MirrorMaker

#: A system that does not answer must not keep the next sample waiting.
ASK_SECONDS = 4.0


#: The flow back has its worker on the source's side, which may be gone as a whole.
_FLOW_BACK_SECONDS = 2.0


@dataclass(frozen=True)
class FlowBack:
    """The flow the other way, where it writes into the very topics that this one reads.

    Attributes:
        worker: None where MirrorMaker 2 runs in dedicated mode.
    """

    worker: MirrorMaker | None
    connector: str

    def may_mirror(self) -> bool | None:
        """Whether it may be mirroring now; None where nobody can be asked.

        Raises:
            ConnectUnavailable: its worker does not answer.
        """
        if self.worker is None:
            return None
        if self.connector not in self.worker.connectors(_FLOW_BACK_SECONDS):
            return False
        status = self.worker.status(self.connector, _FLOW_BACK_SECONDS)
        return not (status.stopped or status.paused)


@dataclass
class Access:
    """What the recorder reads with; everything on the source may fail at any time.

    Attributes:
        worker: None where MirrorMaker 2 runs in dedicated mode, and nothing can be asked of it.
        flow_back: None where no flow writes back into the topics that this one reads.
    """

    source: KafkaCluster
    target: KafkaCluster
    source_records: RecordReader
    target_records: RecordReader
    worker: MirrorMaker | None
    flow_back: FlowBack | None = None


@dataclass(frozen=True)
class Side:
    """One cluster at one sample; `answered` is False where it did not, and then nothing is known of it."""

    answered: bool
    topics: Mapping[str, TopicInfo]
    spans: Mapping[TopicPartition, OffsetSpan]


SILENT = Side(False, {}, {})
