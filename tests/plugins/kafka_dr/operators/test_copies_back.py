"""Positions on copies of the target's own topics: what the translation is told of them, under default naming."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from kafka_dr.domain.canonical import digest_of
from kafka_dr.domain.lineage import Segment
from kafka_dr.domain.topic_partition import TopicPartition
from kafka_dr.operators import copies_back
from kafka_dr.operators.copies_back import originals_of, segments_of_copy, with_copies
from kafka_dr.vocabulary import Step
from tests.plugins.kafka_dr.operators.way_back import ORDERS, WayBack

COPY = TopicPartition("primary.orders", 0)
BOUNDS = pd.DataFrame({"topic": ["orders"], "partition": [0], "target_topic": ["standby.orders"], "source_start": [0], "cut_off": [4], "target_start": [0], "boundary": [4], "drained": [True], "complete": [True], "other_writer": [False], "source_compacted": [False], "target_compacted": [False], "compare_timestamps": [True], "recreated": [False]}).astype({"partition": "int32"})


def planned(way: WayBack, copies: dict[str, str]) -> None:
    """The forecast named these copies."""
    plan = {"copies": copies}
    way.bench.done(way.procedure, Step.FORECAST, plan=plan, plan_digest=digest_of(plan))


@pytest.fixture
def way(make_bench: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> WayBack:
    """Clients went from `orders` on primary to `primary.orders` on standby, and are about to go back."""
    made = WayBack(make_bench(naming={"policy": "default"}), policy="default")
    made.standby.partitions |= {"primary.orders": {0: 1}}
    made.standby.log_ends[COPY] = 12
    planned(made, {"primary.orders": "orders"})
    syncs = pd.DataFrame({"topic": ["orders", "gone"], "partition": [0, 0], "upstream": [5, 1], "downstream": [7, 1], "sequence": [0, 1]})
    monkeypatch.setattr(copies_back, "syncs_of_the_other_flow", lambda procedure: syncs)
    return made


def test_a_copy_is_translated_to_its_original(way: WayBack, tmp_path: Path) -> None:
    """Up to where the failover had proven it to be copied, by the old flow's offset syncs; what is stranded behind that is not skipped."""
    way.primary.log_ends[ORDERS] = 15
    bounds = with_copies(way.procedure, tmp_path, BOUNDS).set_index("topic")
    assert bounds.loc["primary.orders", ["target_topic", "cut_off", "boundary"]].tolist() == ["orders", 12, 15]
    assert bounds.loc["orders"].tolist() == BOUNDS.set_index("topic").loc["orders"].tolist()
    segments = pd.read_parquet(tmp_path / "segments.parquet", dtype_backend="numpy_nullable")
    assert set(segments["topic"]) == {"primary.orders"} and segments["copied_back"].tolist() == [True, False]
    assert segments[["source_from", "target_from", "source_to", "target_to"]].values.tolist() == [[0, 0, 12, 10], [12, 15, pd.NA, pd.NA]]
    syncs = pd.read_parquet(tmp_path / "syncs_back.parquet")
    assert syncs[["topic", "upstream", "downstream"]].values.tolist() == [["primary.orders", 5, 7]]


def test_topics_of_both_kinds_keep_what_their_settings_say(way: WayBack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cleaner on either side, and a broker that stamps records."""
    for cluster, told in ((way.standby, {"primary.orders": {"cleanup.policy": "compact,delete"}}), (way.primary, {"orders": {"message.timestamp.type": "LogAppendTime"}})):
        monkeypatch.setattr(cluster, "configs", lambda topics, told=told: told, raising=False)
    row = with_copies(way.procedure, tmp_path, BOUNDS).iloc[-1]
    assert (row["source_compacted"], row["target_compacted"], row["compare_timestamps"]) == (True, False, False)


def test_without_copies_nothing_is_written(way: WayBack, tmp_path: Path) -> None:
    """A first failover; and a copy whose original was deleted."""
    planned(way, {})
    assert with_copies(way.procedure, tmp_path, BOUNDS) is BOUNDS and not list(tmp_path.iterdir())
    planned(way, {"primary.gone": "gone"})
    assert originals_of(way.procedure) == {}


def test_where_nobody_knows_how_far_it_was_copied_no_position_is_guessed() -> None:
    """Only the ends are told; all positions lie below them."""
    assert segments_of_copy(None, 12, 15) == (Segment(12, None, 15, None, copied_back=False),)
    assert segments_of_copy(99, 12, 15)[0].target_to == 15, "the original has lost its tail"
