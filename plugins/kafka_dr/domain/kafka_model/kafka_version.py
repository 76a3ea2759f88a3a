"""Which version of Kafka something runs, by what it says of itself."""

from __future__ import annotations

import re


def kafka_version(text: str) -> tuple[int, int] | None:
    """Major and minor version; None where the text names none. Confluent's own numbers run ahead: 7.5 is Kafka 3.5."""
    found = re.match(r"(\d+)\.(\d+)", text)
    if found is None:
        return None
    ahead = 4 if re.search(r"-(ccs|ce)\b", text) else 0
    return int(found[1]) - ahead, int(found[2])
