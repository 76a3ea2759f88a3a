"""The application's source probe: whether the source is reachable from the clients' host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

#: The caller's timeout is four seconds, also for a cluster that hangs.
SECONDS = 3.0


def view_of(properties: Mapping[str, Any], servers: str, seconds: float = SECONDS) -> dict[str, Any]:
    """Ask a cluster for its metadata with a fresh client.

    Returns:
        `reachable`: whether the cluster answered; `writable`: None, as a test record among the clients' records would
        belong to no client; `detail`: the answer or the error.
    """
    try:
        metadata = AdminClient({**properties, "bootstrap.servers": servers, "log_level": 0}).list_topics(
            timeout=seconds
        )
    except KafkaException as error:
        return {"reachable": False, "writable": None, "detail": f"{servers}: {error.args[0].name()}"}
    return {"reachable": True, "writable": None, "detail": f"{servers}: {len(metadata.brokers)} brokers"}
