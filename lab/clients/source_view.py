"""The source as its clients see it from where they are: the application's word when it seems lost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

#: Whoever asks waits four seconds at most, also for a cluster that hangs.
SECONDS = 3.0


def view_of(properties: Mapping[str, Any], servers: str, seconds: float = SECONDS) -> dict[str, Any]:
    """Ask a cluster for its metadata with a fresh client.

    Returns:
        `reachable`: whether it answered; `writable`: None, since a record of ours among the clients' would be nobody's;
        `detail`: what it said.
    """
    try:
        found = AdminClient({**properties, "bootstrap.servers": servers, "log_level": 0}).list_topics(timeout=seconds)
    except KafkaException as error:
        return {"reachable": False, "writable": None, "detail": f"{servers}: {error.args[0].name()}"}
    return {"reachable": True, "writable": None, "detail": f"{servers}: {len(found.brokers)} brokers"}
