"""Offsets topic and worker group of a flow, as stated or as dedicated mode has them."""

from __future__ import annotations

import pytest
from kafka_dr.domain.mirror_maker.offsets_topic_settings import offsets_topic_settings


@pytest.mark.parametrize(
    ("stated", "name", "group", "may_create"),
    [
        ({}, "mm2-offsets.west.internal", "west-mm2", True),
        ({"group.id": "mm2"}, "mm2-offsets.west.internal", "mm2", True),
        ({"offset.storage.topic": "own"}, "own", None, False),
        ({"offset.storage.topic": "own", "group.id": "mm2"}, "own", "mm2", False),
    ],
)
def test_what_is_not_stated_is_dedicated_modes_own(
    stated: dict[str, str], name: str, group: str | None, may_create: bool
) -> None:
    """Beside another topic no group is guessed: one without members would seem to prove that nothing runs."""
    found = offsets_topic_settings("west", stated)
    assert (found.name, found.group, found.may_create) == (name, group, may_create)
    assert (found.partitions, found.replicas) == (25, None)


def test_a_topic_is_created_as_stated() -> None:
    """With the numbers of the processes' own properties."""
    stated = {"offset.storage.partitions": "5", "offset.storage.replication.factor": " 1 "}
    found = offsets_topic_settings("west", stated)
    assert (found.partitions, found.replicas) == (5, 1)


@pytest.mark.parametrize(
    ("stated", "problem"),
    [
        ({"offset.storage.topic": ""}, "offset.storage.topic: "),
        ({"offset.storage.topic": "a b"}, "offset.storage.topic: "),
        ({"group.id": " "}, "group.id is empty"),
        ({"offset.storage.partitions": "0"}, "offset.storage.partitions is no whole number"),
        ({"offset.storage.replication.factor": "-1"}, "offset.storage.replication.factor is no whole number"),
    ],
)
def test_what_cannot_be_used_is_named(stated: dict[str, str], problem: str) -> None:
    """When the topology is read, not when offsets are set."""
    with pytest.raises(ValueError, match=problem):
        offsets_topic_settings("west", stated)
