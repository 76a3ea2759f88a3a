"""What version a worker runs, by its own words."""

from __future__ import annotations

import pytest
from kafka_dr.domain.kafka_model.kafka_version import kafka_version


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("4.3.1", (4, 3)),
        ("3.9.0.redhat-00003", (3, 9)),
        ("3.4.1.7.2.18.0-641", (3, 4)),
        ("7.5.1-ccs", (3, 5)),
        ("8.1.0-ce", (4, 1)),
        ("7.5.1", None),
        ("2024.3", None),
        ("unknown", None),
        ("", None),
    ],
)
def test_versions_of_workers(text: str, version: tuple[int, int] | None) -> None:
    """Confluent numbers its own releases: 7.5 is Kafka 3.5; a number that no Kafka has says nothing."""
    assert kafka_version(text) == version
