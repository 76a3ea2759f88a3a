"""Kafka versions, parsed from the version texts of brokers and workers."""

from __future__ import annotations

import re


def kafka_version(text: str) -> tuple[int, int] | None:
    """Major and minor version; None if the text has none. Confluent's are 4 ahead: 7.5.0-ccs is Kafka 3.5."""
    match = re.match(r"(\d+)\.(\d+)", text)
    if match is None:
        return None
    ahead = 4 if re.search(r"-(ccs|ce)\b", text) else 0
    return int(match[1]) - ahead, int(match[2])
