"""What the recorder reads with, and what one look saw of a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafka_dr.domain.topic_partition import TopicPartition
from kafka_dr.hooks.kafka_cluster import KafkaCluster, TopicInfo
from kafka_dr.hooks.kafka_records import RecordReader, Span
from kafka_dr.hooks.mirror_maker import MirrorMaker

#: A system that does not answer must not keep the next sample waiting.
ASK_SECONDS = 4.0


@dataclass
class Access:
    """What the recorder reads with; everything on the source may fail at any time.

    Attributes:
        worker: None where MirrorMaker 2 runs in dedicated mode, and nothing can be asked of it.
    """

    source: KafkaCluster
    target: KafkaCluster
    source_records: RecordReader
    target_records: RecordReader
    worker: MirrorMaker | None


@dataclass(frozen=True)
class Side:
    """One cluster at one sample; `answered` is False where it did not, and then nothing is known of it."""

    answered: bool
    topics: Mapping[str, TopicInfo]
    spans: Mapping[TopicPartition, Span]


SILENT = Side(False, {}, {})
