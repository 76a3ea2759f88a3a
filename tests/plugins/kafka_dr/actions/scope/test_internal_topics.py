"""MirrorMaker 2's own topics on the target: whose they are, and what they say of the source."""

from __future__ import annotations

import itertools
from typing import Any

import pandas as pd
import pytest
from kafka_dr.actions.scope.internal_topics import checkpoints_with_origin, syncs_location, syncs_on_target
from kafka_dr.domain.mirror_maker.mirror_records import Checkpoint, OffsetSync, encode_checkpoint, encode_offset_sync
from kafka_dr.errors import Contradiction

from tests.support.size.traced_memory import allocated

SYNCS, CHECKPOINTS = "mm2-offset-syncs.primary.internal", "primary.checkpoints.internal"
ON_TARGET = {"offset-syncs.topic.location": "target"}
DEFAULT = {"policy": "default", "separator": "."}


def put(bench: Any, topic: str, records: list[tuple[bytes, bytes]]) -> None:
    """Records of an internal topic on the target."""
    bench.clusters["standby"].partitions[topic] = {0: 1}
    bench.clusters["standby"].internal[topic] = records


def synced(bench: Any, *pairs: tuple[int, int]) -> None:
    """Offset syncs of orders-0."""
    put(bench, SYNCS, [encode_offset_sync(OffsetSync("orders", 0, u, d)) for u, d in pairs])


def flows(**stated: str) -> list[dict[str, Any]]:
    """The bench's flows, of which the first states settings."""
    made = [
        {
            "source": s,
            "target": t,
            "connect": f"connect_{t}",
            "connectors": {k: f"{s[0]}.{k}" for k in ("source", "checkpoint")},
        }
        for s, t in (("primary", "standby"), ("standby", "primary"))
    ]
    made[0]["mirror_maker"] = stated
    return made


def test_syncs_come_in_the_order_written(bench: Any) -> None:
    """One that cannot be read is left out, leaves its number free, and is told."""
    bench.workers["standby"].settings, missing = ON_TARGET, []
    synced(bench, (5, 3), (9, 7), *((n, n) for n in range(10, 1010)))
    bench.clusters["standby"].internal[SYNCS].insert(1, (b"?", b"?"))
    found = syncs_on_target(bench.procedure(), missing)
    seen = found[["topic", "partition", "upstream", "downstream", "sequence"]].values.tolist()[:2]
    assert seen == [["orders", 0, 5, 3, 0], ["orders", 0, 9, 7, 2]]
    assert missing == [f"1 of 1003 records of {SYNCS} cannot be decoded as records of MirrorMaker 2, and are left out"]


def test_an_offset_sync_takes_few_bytes(bench: Any) -> None:
    """The page on performance states them: 36 of each that an unplanned failover keeps."""
    bench.workers["standby"].settings, count = ON_TARGET, 40_000
    put(bench, SYNCS, [encode_offset_sync(OffsetSync(f"orders-{n % 70}", n // 70 % 100, n, n)) for n in range(count)])
    found, kept, _ = allocated(lambda: syncs_on_target(bench.procedure(), []))
    assert len(found) == count and kept / count < 45


@pytest.mark.parametrize("read", [syncs_on_target, checkpoints_with_origin])
def test_too_many_that_cannot_be_read_stop_the_run(bench: Any, read: Any) -> None:
    """More than one of a thousand: nobody can tell what else is wrong."""
    bench.workers["standby"].settings = ON_TARGET
    synced(bench, *((n, n) for n in range(1998)))
    put(bench, CHECKPOINTS, [encode_checkpoint(Checkpoint(f"g{n}", "orders", 0, n, n)) for n in range(1998)])
    for topic, foreign in itertools.product((SYNCS, CHECKPOINTS), range(3)):
        bench.clusters["standby"].internal[topic].append((f"?{foreign}".encode(), b"?"))
    with pytest.raises(
        Contradiction, match=r"too many records that MirrorMaker 2 did not write. Seen: on standby, 3 of 2001 records"
    ):
        read(bench.procedure(), [])


def test_the_other_flows_syncs_are_not_this_ones(bench: Any) -> None:
    """The flow the other way keeps its syncs on its source, which is our target, under the very name: there upstream
    is downstream.
    """
    synced(bench, (5, 3))
    assert syncs_location(bench.procedure()) == "source" and syncs_on_target(bench.procedure(), []).empty


@pytest.mark.parametrize(
    ("stated", "location", "rows"),
    [(ON_TARGET, "target", 1), ({"offset-syncs.topic.location": "source"}, "source", 0), ({}, None, 0)],
)
def test_with_a_silent_worker_what_is_stated_counts(
    make_bench: Any, stated: dict[str, str], location: str | None, rows: int
) -> None:
    """And where nothing is stated, nothing is believed."""
    bench = make_bench(flows=flows(**stated))
    bench.workers["standby"].away = True
    synced(bench, (5, 3))
    assert syncs_location(bench.procedure()) == location and len(syncs_on_target(bench.procedure(), [])) == rows


def test_without_the_topics_there_is_nothing(bench: Any) -> None:
    """Frames without rows keep their types."""
    bench.workers["standby"].settings = ON_TARGET
    syncs, stated = syncs_on_target(bench.procedure(), []), checkpoints_with_origin(bench.procedure(), [])
    assert syncs.dtypes.astype(str).to_dict() == {
        "topic": "object",
        "partition": "int32",
        "upstream": "int64",
        "downstream": "int64",
        "sequence": "int64",
    }
    found = stated.dtypes.astype(str).to_dict()
    assert found == {"group": "object", "topic": "object", "partition": "int32", "position": "int64"}


def stated_positions(bench: Any, *topics: str) -> list[list[Any]]:
    """Topics and positions by checkpoints on these topics of the target."""
    put(
        bench,
        CHECKPOINTS,
        [encode_checkpoint(Checkpoint("g", topic, 0, 100 + number, 5)) for number, topic in enumerate(topics)],
    )
    found: pd.DataFrame = checkpoints_with_origin(bench.procedure(), [])
    return found[["topic", "position"]].values.tolist()


def test_checkpoints_state_the_sources_position(bench: Any) -> None:
    """Upstream, not what was translated; the newest one counts."""
    assert stated_positions(bench, "orders", "orders") == [["orders", 101]]


def test_a_checkpoint_of_a_topic_that_came_from_the_target_is_no_position_of_its_namesake(make_bench: Any) -> None:
    """MirrorMaker 2 names the source's copy of a target topic by its own name there: `standby.orders` on the source
    is `orders` here.
    """
    assert stated_positions(make_bench(naming=DEFAULT), "primary.orders", "orders") == [["orders", 100]]
