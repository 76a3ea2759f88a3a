"""What an observation says of positions."""

from __future__ import annotations

import pandas as pd
from kafka_dr.actions.readiness.observe import caught_up_positions
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.readiness.observation import Sample


def test_only_positions_near_the_end_have_to_be_followed_by_checkpoints() -> None:
    """At the end of an idle log, or within a minute's growth of a busy one; others are translated by older syncs."""
    busy, idle = TopicPartition("busy", 0), TopicPartition("idle", 0)
    first, last = Sample({busy: 900, idle: 50}, {}, 10.0), Sample({busy: 1_000, idle: 50}, {}, 12.0)
    rows = [("follows", "busy", 0, 900), ("follows", "idle", 0, 50), ("lags", "idle", 0, 49)]
    rows += [("reads old records", "busy", 0, -2_001), ("reads newer ones", "busy", 0, -2_000), ("other", "gone", 0, 9)]
    positions = pd.DataFrame(rows, columns=["group", "topic", "partition", "position"])
    found = caught_up_positions(positions, first, last)
    assert found == {"follows 2": 950, "reads newer ones 1": -2_000}
    assert caught_up_positions(positions, last, last) == {"follows 1": 50}
    assert caught_up_positions(positions.iloc[:0], first, last) == {}
