"""Reading large records and long internal topics takes an amount of memory that does not grow with what is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from kafka_dr.vocabulary import JOURNAL_TOPIC

from tests.support.size.one_broker import one_broker
from tests.support.size.reading_memory import grown, write_checkpoints, write_large, write_syncs

#: The client's queue, an answer of the broker, and the records that are being looked at; in MB.
BOUND = 100
PARTITIONS, RECORDS, AMONG_ANCHORS = 100, 2, 150
STATEMENTS = 500_000


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Any]]:
    """350 MB of records of 1 MB each, partly in the topic of the journal's anchors, and half a million offset syncs and
    as many checkpoints.
    """
    with one_broker(tmp_path_factory.mktemp("one_broker")) as settings:
        write_large(settings, PARTITIONS, RECORDS)
        write_large(settings, 1, AMONG_ANCHORS, JOURNAL_TOPIC)
        write_syncs(settings, STATEMENTS)
        write_checkpoints(settings, STATEMENTS)
        yield settings


@pytest.mark.parametrize(
    "what", ["tails", "newest", "anchors", "fingerprints", "syncs_to_file", "last_syncs", "checkpoints"]
)
def test_memory_does_not_grow_with_what_is_read(broker: Mapping[str, Any], what: str) -> None:
    """Whole records of all partitions, or half a million decoded statements, would take several times the bound."""
    assert grown(what, broker) < BOUND
