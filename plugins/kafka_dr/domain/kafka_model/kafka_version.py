"""Kafka versions, parsed from the version texts of Connect workers."""

from __future__ import annotations

import re

_NEWEST_MAJOR = 4


def kafka_version(text: str) -> tuple[int, int] | None:
    """Return Kafka's (major, minor) of a version text; None if the text does not say which Kafka version it is.

    Vendors append to Kafka's version, as in `3.9.0.redhat-00003`. Confluent alone has its own numbers, marked by `-ccs`
    or `-ce`, with a major version that is higher by 4 than Kafka's: `7.5.0-ccs` is Kafka (3, 5).
    """
    match = re.match(r"(\d+)\.(\d+)", text)
    if match is None:
        return None
    major = int(match[1]) - (4 if re.search(r"-(ccs|ce)\b", text) else 0)
    return (major, int(match[2])) if major <= _NEWEST_MAJOR else None
