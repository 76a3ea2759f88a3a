"""Sizes of logs on disk, parsed from the output of Kafka's own tool for log directories."""

from __future__ import annotations

from kafka_dr.domain.canonical_json import read_json
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import BadInput


def log_sizes(printed: str, alias: str) -> dict[TopicPartition, int]:
    """Return partition -> bytes of its largest replica; unfinished replicas of moves between disks do not count.

    Args:
        printed: output of `kafka-log-dirs --describe`: text lines, and one line of JSON with brokers, log directories
            and partitions.
        alias: the cluster's name in the topology, for errors.

    Raises:
        BadInput: the output has no such JSON line, or a broker could not read a directory.
    """
    try:
        brokers = read_json(next((line for line in printed.splitlines() if line.startswith("{")), ""))["brokers"]
    except (ValueError, KeyError):
        raise BadInput(
            "Kafka's tool printed no sizes of logs",
            f"{alias}: {len(printed.splitlines())} lines, none of which is JSON that names brokers",
            f"set `kafka_tools` in the topology to the folder `libs` of the Kafka version of {alias}",
        ) from None
    folders = [(broker["broker"], folder) for broker in brokers for folder in broker["logDirs"]]
    failed = [f"broker {broker}: {folder['error']}" for broker, folder in folders if folder.get("error")]
    if failed:
        raise BadInput(
            "Brokers could not read the sizes of their logs",
            f"{alias}: {first_few(failed)}",
            f"correct the log directories of these brokers of {alias}; the brokers' logs name the directories",
        )
    sizes: dict[TopicPartition, int] = {}
    for replica in (part for _, folder in folders for part in folder["partitions"] if not part.get("isFuture")):
        topic, _, number = replica["partition"].rpartition("-")
        partition = TopicPartition(topic, int(number))
        sizes[partition] = max(int(replica["size"]), sizes.get(partition, 0))
    return sizes
