"""Positions on copies of the target's own topics: what the translation is told of them, under default naming."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from kafka_dr.actions.history.journal_lineage import History
from kafka_dr.actions.offsets import prefixed_topics as copies_back
from kafka_dr.actions.offsets.prefixed_topics import (
    bounds_of_lost_copies,
    ends_of_copies,
    originals_of,
    segments_of_copy,
    with_lost_copies,
    write_prefixed_copies,
)
from kafka_dr.actions.scope.position_frames import partitions_frame
from kafka_dr.domain.failback.lineage import CopiedSegment
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import TopicsToCreate
from kafka_dr.vocabulary import Step

from tests.plugins.kafka_dr.actions.history.test_journal_lineage import Trips
from tests.support.failback_bench import ORDERS, WayBack

COPY = TopicPartition("primary.orders", 0)
BOUNDS = pd.DataFrame(
    {
        "topic": ["orders"],
        "partition": [0],
        "target_topic": ["standby.orders"],
        "source_start": [0],
        "cut_off": [4],
        "target_start": [0],
        "boundary": [4],
        "drained": [True],
        "complete": [True],
        "other_writer": [False],
        "source_compacted": [False],
        "target_compacted": [False],
        "compare_timestamps": [True],
        "recreated": [False],
    }
).astype({"partition": "int32"})


def planned(way: WayBack, copies: dict[str, str]) -> None:
    """The forecast named these copies."""
    way.bench.done(way.procedure, Step.FORECAST, plan={"copies": copies})


@pytest.fixture
def way(make_bench: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> WayBack:
    """Clients went from `orders` on primary to `primary.orders` on standby, and are about to go back."""
    made = WayBack(make_bench(naming={"policy": "default"}), policy="default")
    made.standby.partitions |= {"primary.orders": {0: 1}}
    made.standby.log_ends[COPY] = 12
    planned(made, {"primary.orders": "orders"})
    syncs = pd.DataFrame(
        {"topic": ["orders", "gone"], "partition": [0, 0], "upstream": [5, 1], "downstream": [7, 1], "sequence": [0, 1]}
    )
    monkeypatch.setattr(copies_back, "syncs_of_the_other_flow", lambda procedure: [syncs])
    return made


def test_a_copy_is_translated_to_its_original(way: WayBack, tmp_path: Path) -> None:
    """Up to where the failover had proven it to be copied, by the old flow's offset syncs; what is stranded behind
    that is not skipped.
    """
    way.primary.log_ends[ORDERS] = 15
    bounds = write_prefixed_copies(way.procedure, tmp_path, BOUNDS).set_index("topic")
    assert bounds.loc["primary.orders", ["target_topic", "cut_off", "boundary"]].tolist() == ["orders", 12, 15]
    assert bounds.loc["orders"].tolist() == BOUNDS.set_index("topic").loc["orders"].tolist()
    segments = pd.read_parquet(tmp_path / "segments.parquet", dtype_backend="numpy_nullable")
    assert set(segments["topic"]) == {"primary.orders"} and segments["copied_back"].tolist() == [True, False]
    found = segments[["source_from", "target_from", "source_to", "target_to"]].values.tolist()
    assert found == [[0, 0, 12, 10], [12, 15, pd.NA, pd.NA]]
    syncs = pd.read_parquet(tmp_path / "syncs_back.parquet")
    assert syncs[["topic", "upstream", "downstream"]].values.tolist() == [["primary.orders", 5, 7]]


def test_topics_of_both_kinds_keep_what_their_settings_say(
    way: WayBack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cleaner on either side, and a broker that stamps records."""
    for cluster, told in (
        (way.standby, {"primary.orders": {"cleanup.policy": "compact,delete"}}),
        (way.primary, {"orders": {"message.timestamp.type": "LogAppendTime"}}),
    ):
        monkeypatch.setattr(cluster, "configs", lambda topics, told=told: told, raising=False)
    row = write_prefixed_copies(way.procedure, tmp_path, BOUNDS).iloc[-1]
    assert (row["source_compacted"], row["target_compacted"], row["compare_timestamps"]) == (True, False, False)


def test_without_copies_nothing_is_written(way: WayBack, tmp_path: Path) -> None:
    """A first failover; and a copy whose original was deleted."""
    planned(way, {})
    assert write_prefixed_copies(way.procedure, tmp_path, BOUNDS) is BOUNDS and not list(tmp_path.iterdir())
    planned(way, {"primary.gone": "gone"})
    assert originals_of(way.procedure) == {}


def test_where_nobody_knows_how_far_it_was_copied_no_position_is_guessed(way: WayBack) -> None:
    """Only the ends are told; all positions lie below them. That it was copied to its last record is told only of
    one that has it still.
    """
    assert segments_of_copy(None, COPY, ORDERS, 12, 15) == (CopiedSegment(12, None, 15, None, copied_back=False),)
    known = History.of(way.procedure)
    assert segments_of_copy(known, COPY, ORDERS, 12, 15)[0] == CopiedSegment(
        0, 12, 0, 10, copied_back=True, drained=True
    )
    assert segments_of_copy(known, COPY, ORDERS, 12, 7)[0] == CopiedSegment(
        0, 12, 0, 7, copied_back=True, drained=False
    ), "the original has lost its tail"


def back_again(trips: Trips, begun: int | None, cut_off: dict[TopicPartition, int] | None = None) -> None:
    """Clients left `orders` on primary, its copy ended at 104, and came back; the flow was told to begin behind an
    offset.
    """
    trips.begin("primary", "standby")
    trips.opens({ORDERS: 100} if cut_off is None else cut_off, {FORTH_COPY: 104})
    back = trips.begin("standby", "primary")
    if begun is not None:
        trips.bench.done(
            back,
            Step.SEED_REVERSE_REPLICATION,
            seeds=back.artifacts.save("seeds", partitions_frame({ORDERS: begun}, "replicated")),
        )
        trips.note(Step.START_REVERSE_REPLICATION, {FORTH_COPY: 104})
    trips.opens({ORDERS: 40, FORTH_COPY: 104}, {BACK_COPY: 43})


def kept_behind(trips: Trips, begun: int | None, cut_off: dict[TopicPartition, int] | None = None) -> pd.DataFrame:
    """The segments of the bounds of the failover after that."""
    back_again(trips, begun, cut_off)
    later = trips.begin("primary", "standby")
    trips.bench.done(later, Step.FORECAST, plan={"topics": [["orders", "primary.orders", 1, "id-orders"]]})
    write_prefixed_copies(later, trips.folder, BOUNDS.assign(target_topic="primary.orders", cut_off=120, boundary=117))
    path = trips.folder / "segments.parquet"
    return (
        pd.read_parquet(path, dtype_backend="numpy_nullable").drop(columns=["topic", "partition"])
        if path.exists()
        else pd.DataFrame()
    )


def apart(make_bench: Callable[..., Any], folder: Path) -> Trips:
    """Two clusters with default naming; nobody went anywhere yet."""
    return Trips(make_bench(naming={"policy": "default", "separator": "."}), folder)


def test_around_records_that_were_kept_there_are_two_segments(make_bench: Callable[..., Any], tmp_path: Path) -> None:
    """Seven were stranded on primary and stayed there: the flow began behind them, and they are missing on no copy."""
    found = kept_behind(apart(make_bench, tmp_path), begun=106)
    seen = found[["source_from", "source_to", "target_from", "target_to"]].values.tolist()
    assert seen == [[0, 100, 0, 104], [107, pd.NA, 104, pd.NA]]
    assert found["copied_back"].tolist() == [False, False] and found["drained"].tolist() == [True, False]


@pytest.mark.parametrize(("end", "original_end", "found"), [
    (117, 120, [CopiedSegment(0, 104, 0, 100, True, True), CopiedSegment(104, 117, 107, 120, True, True)]),
    (117, 119, [CopiedSegment(0, 104, 0, 100, True, True), CopiedSegment(104, 117, 107, 119, True)]),
    (117, 106, []),
    (103, 120, []),
])  # fmt: skip
def test_a_copy_is_parted_where_the_original_holds_what_was_kept_there(
    make_bench: Callable[..., Any], tmp_path: Path, end: int, original_end: int, found: list[CopiedSegment]
) -> None:
    """Clients went away a second time, and are about to come back: what they had read of the copy goes on around the
    seven that were stranded. Nothing is guessed of logs that are too short for that.
    """
    trips = apart(make_bench, tmp_path)
    back_again(trips, begun=106)
    trips.begin("primary", "standby")
    trips.opens({ORDERS: 120, BACK_COPY: 43}, {FORTH_COPY: 117})
    known = History.of(trips.begin("standby", "primary"))
    seen = segments_of_copy(known, FORTH_COPY, ORDERS, end, original_end)
    assert seen == (*found, CopiedSegment(end, None, original_end, None, copied_back=False))


def test_where_the_receipt_is_gone_nothing_is_said_of_what_stayed_behind(
    make_bench: Callable[..., Any], tmp_path: Path
) -> None:
    """Evidence of years ago was deleted: the failover goes on without it."""
    trips = apart(make_bench, tmp_path)
    back_again(trips, begun=106)
    for path in trips.procedure.artifacts.folder.glob("seeds-*.parquet"):
        path.unlink()
    known = History.of(trips.begin("primary", "standby"))
    assert known.around_stranded(ORDERS, FORTH_COPY).segments == ()


@pytest.mark.parametrize("begun", [99, None])
def test_where_nothing_stayed_behind_or_nobody_knows_there_is_one_stretch(
    make_bench: Callable[..., Any], tmp_path: Path, begun: int | None
) -> None:
    """The flow went on where it had stopped; or no procedure told it where to begin."""
    assert kept_behind(apart(make_bench, tmp_path), begun).empty


def test_a_log_that_is_shorter_than_what_stayed_behind_has_no_segments(
    make_bench: Callable[..., Any], tmp_path: Path
) -> None:
    """It is another log, or has lost its tail: what the journal says is not of it."""
    assert kept_behind(apart(make_bench, tmp_path), begun=130).empty


def test_copies_that_were_made_anew_since_hold_what_had_stayed_behind(
    make_bench: Callable[..., Any], tmp_path: Path
) -> None:
    """They were filled from the beginning of the source's log."""
    trips = apart(make_bench, tmp_path)
    trips.begin("primary", "standby")
    trips.opens({ORDERS: 100}, {FORTH_COPY: 104})
    back = trips.begin("standby", "primary")
    trips.bench.done(
        back,
        Step.SEED_REVERSE_REPLICATION,
        seeds=back.artifacts.save("seeds", partitions_frame({ORDERS: 106}, "replicated")),
    )
    trips.note(Step.START_REVERSE_REPLICATION, {FORTH_COPY: 104})
    trips.opens({ORDERS: 40, FORTH_COPY: 104}, {BACK_COPY: 43})
    again = trips.begin("primary", "standby")
    record_fact(again.authority, Step.PREPARE_TOPICS, TopicsToCreate(creates_topics=["primary.orders"]))
    trips.bench.done(again, Step.FORECAST, plan={"topics": [["orders", "primary.orders", 1, "id-orders"]]})
    write_prefixed_copies(again, trips.folder, BOUNDS.assign(target_topic="primary.orders", cut_off=120, boundary=120))
    assert not (trips.folder / "segments.parquet").exists()


# -- the source is lost ------------------------------------------------------------------------------------------

BACK_COPY, FORTH_COPY = TopicPartition("standby.orders", 0), TopicPartition("primary.orders", 0)


@pytest.fixture
def there_and_back(make_bench: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trips:
    """Clients went to standby, wrote 40 records into its own `orders`, came back when their copies on primary ended
    at 43, and primary is lost now.
    """
    made = Trips(make_bench(naming={"policy": "default", "separator": "."}), tmp_path)
    made.begin("primary", "standby")
    made.opens({ORDERS: 100}, {FORTH_COPY: 104})
    made.begin("standby", "primary")
    made.opens({ORDERS: 40, FORTH_COPY: 104}, {BACK_COPY: 43})
    made.bench.clusters["standby"].log_ends[ORDERS] = 41
    made.begin("primary", "standby")
    made.bench.clusters["primary"].away = True
    syncs = pd.DataFrame(
        {"topic": ["orders", "gone"], "partition": [0, 0], "upstream": [5, 1], "downstream": [7, 1], "sequence": [0, 1]}
    )
    monkeypatch.setattr(copies_back, "syncs_of_the_other_flow", lambda procedure: [syncs])
    return made


def test_a_lost_copy_ends_where_the_journal_says(there_and_back: Trips) -> None:
    """Nothing is asked of the source; what is no copy has no row."""
    rows = bounds_of_lost_copies(there_and_back.procedure, ["orders", "standby.orders", "standby.gone"])
    assert rows[["topic", "target_topic", "cut_off", "boundary", "drained"]].values.tolist() == [
        ["standby.orders", "orders", 43, 41, True]
    ]
    bounds = with_lost_copies(there_and_back.procedure, there_and_back.folder, BOUNDS, rows)
    assert bounds["topic"].tolist() == ["orders", "standby.orders"]
    segments = pd.read_parquet(there_and_back.folder / "segments.parquet", dtype_backend="numpy_nullable")
    found = segments[["source_from", "target_from", "source_to", "target_to"]].values.tolist()
    assert found == [[0, 0, 43, 40], [43, 41, pd.NA, pd.NA]]
    assert pd.read_parquet(there_and_back.folder / "syncs_back.parquet")[
        ["topic", "upstream", "downstream"]
    ].values.tolist() == [["standby.orders", 5, 7]]


def test_of_a_copy_that_no_procedure_knows_no_end_is_guessed(there_and_back: Trips) -> None:
    """Its topic came after clients had left: there is a row without a cut-off, and no segment."""
    there_and_back.bench.clusters["standby"].partitions |= {"late": {0: 1}}
    rows = bounds_of_lost_copies(there_and_back.procedure, ["standby.late"])
    assert pd.isna(rows["cut_off"][0]) and not rows["drained"][0]
    assert with_lost_copies(there_and_back.procedure, there_and_back.folder, BOUNDS.astype({"cut_off": "Int64"}), rows)[
        "topic"
    ].tolist() == ["orders", "standby.late"]
    assert not (there_and_back.folder / "segments.parquet").exists()


def test_an_original_that_was_cut_since_is_seen(there_and_back: Trips) -> None:
    """What was translated ahead is compared with this; a translation without copies says nothing."""
    procedure, cluster = there_and_back.procedure, there_and_back.bench.clusters["standby"]
    before = ends_of_copies(procedure, bounds_of_lost_copies(procedure, ["standby.orders"]))
    assert before == [["standby.orders", 0, 43, 0, 41]]
    cluster.log_starts[ORDERS] = 7
    assert ends_of_copies(procedure, bounds_of_lost_copies(procedure, ["standby.orders"])) == [
        ["standby.orders", 0, 43, 7, 41]
    ]
    assert (
        ends_of_copies(procedure, BOUNDS)
        == ends_of_copies(procedure, bounds_of_lost_copies(procedure, ["orders"]))
        == []
    )
