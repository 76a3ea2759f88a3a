"""Fixtures of the recorder's tests."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.mirror_maker.mirror_records import (
    Checkpoint,
    Heartbeat,
    OffsetSync,
    encode_checkpoint,
    encode_heartbeat,
    encode_offset_sync,
)
from kafka_dr.hooks.connect.flow_connectors import FlowConnectors
from kafka_dr.recorder.clients import Access
from kafka_dr.recorder.sampler import Looker

from tests.support.sampled_site import BEATS, CHECKPOINTS, COMMITS, FLOW, NAMING, ORDERS, SYNCS, Cluster, Reader, Worker


@pytest.fixture
def site() -> Any:
    """Two clusters, three records, two of them mirrored, and a group at the second."""
    asked: list[str] = []
    east, west = Cluster("east", asked), Cluster("west", asked)
    east.write(ORDERS, b"1", b"2", b"3")
    west.write(ORDERS, b"1", b"2")
    east.write(COMMITS, b"")
    east.positions = {"billing": {ORDERS: 1}}
    for topic, (key, value) in (
        (SYNCS, encode_offset_sync(OffsetSync("orders", 0, 1, 1))),
        (CHECKPOINTS, encode_checkpoint(Checkpoint("billing", "orders", 0, 1, 1))),
        (BEATS, encode_heartbeat(Heartbeat("east", "west", 77))),
    ):
        west.write(TopicPartition(topic, 0), value, key=key)
    worker = Worker()
    looker = Looker(FLOW, NAMING, Access(east, west, Reader(east), Reader(west), FlowConnectors(FLOW, NAMING, worker)))
    return SimpleNamespace(east=east, west=west, looker=looker, asked=asked, worker=worker)
