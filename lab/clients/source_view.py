"""The application's source probe: ask from the clients' host whether the clients' current cluster answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

#: Timeout in seconds. The probe's caller waits four seconds and must get an answer even if the cluster hangs.
SECONDS = 3.0


def view_of(properties: Mapping[str, Any], servers: str, seconds: float = SECONDS) -> dict[str, Any]:
    """Ask a cluster for its metadata with a new client; return the source probe's answer after at most `seconds`.

    Returns:
        `reachable`: whether the cluster answered; `writable`: None (unknown), because a test record would lie between
        the clients' records; `detail`: the answer or the error.
    """
    try:
        metadata = AdminClient({**properties, "bootstrap.servers": servers, "log_level": 0}).list_topics(
            timeout=seconds
        )
    except KafkaException as error:
        return {"reachable": False, "writable": None, "detail": f"{servers}: {error.args[0].name()}"}
    return {"reachable": True, "writable": None, "detail": f"{servers}: {len(metadata.brokers)} brokers"}
