"""Kafka versions, parsed from the version texts of brokers and workers."""

from __future__ import annotations

import re


def kafka_version(text: str) -> tuple[int, int] | None:
    """Return Kafka's (major, minor) of a version text; None if the text has no version.

    Confluent's major version is higher by 4 than Kafka's: `7.5.0-ccs` is Kafka (3, 5).
    """
    match = re.match(r"(\d+)\.(\d+)", text)
    if match is None:
        return None
    ahead = 4 if re.search(r"-(ccs|ce)\b", text) else 0
    return int(match[1]) - ahead, int(match[2])
