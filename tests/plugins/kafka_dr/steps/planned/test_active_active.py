"""Steps of a planned failover while both flows run, and the target's own clients write all the while."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from airflow.sdk.exceptions import AirflowFailException
from kafka_dr.actions.history.journal_lineage import History
from kafka_dr.actions.offsets import prefixed_topics
from kafka_dr.actions.offsets.commit import wanted_positions
from kafka_dr.actions.offsets.prefixed_topics import (
    bounds_of_lost_copies,
    copied_by_now,
    segments_of_growing_copy,
    write_prefixed_copies,
)
from kafka_dr.actions.readiness.flow_check import waits_for_its_turn
from kafka_dr.domain.failback.lineage import CopiedSegment
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.procedure.entries import ReverseFlowSeeded
from kafka_dr.steps.planned.open_target import OpenTarget
from kafka_dr.steps.planned.seed_reverse_replication import SeedReverseReplication
from kafka_dr.vocabulary import Entry, Step

from tests.plugins.kafka_dr.actions.history.test_journal_lineage import Trips
from tests.plugins.kafka_dr.actions.offsets.test_prefixed_topics import BOUNDS, back_again

ORDERS, COPY, BACK = (TopicPartition(name, 0) for name in ("orders", "primary.orders", "standby.orders"))
FLOWS = [
    {
        "source": source,
        "target": target,
        "connect": f"connect_{target}",
        "connectors": {kind: f"{source[0]}.{kind}" for kind in ("source", "checkpoint")},
    }
    for source, target in (("primary", "standby"), ("standby", "primary"))
]


def make_pair(make_bench: Callable[..., Any], runs: str = "always", groups: Any = (), **states: str) -> Any:
    """A bench with default naming; the reverse flow's source connector is RUNNING, unless `states` says otherwise."""
    more = {"groups": groups} if groups else {}
    bench = make_bench(naming={"policy": "default"}, flows=[{**flow, "runs": runs} for flow in FLOWS], **more)
    bench.workers["primary"].states |= {"s.source": "RUNNING", "s.checkpoint": "RUNNING", **states}
    bench.clusters["standby"].partitions |= {"orders": {0: 1}, "primary.orders": {0: 1}}
    bench.clusters["standby"].log_ends |= {ORDERS: 40, COPY: 10}
    return bench


@pytest.fixture
def pair(make_bench: Callable[..., Any]) -> Any:
    """An active-active pair."""
    return make_pair(make_bench)


def open_(bench: Any) -> dict[str, Any]:
    """Execute open_target."""
    return OpenTarget(task_id=Step.OPEN_TARGET.value).execute(bench.context())


def test_the_targets_own_clients_may_write_before_the_target_is_opened(pair: Any) -> None:
    """Their topic has grown since commit_groups, and that keeps nobody out."""
    pair.stopped(remote="primary.orders")
    pair.clusters["standby"].log_ends[ORDERS] = 55
    open_(pair)
    assert pair.kinds(Step.OPEN_TARGET)[-1] == Entry.OUTCOME


@pytest.mark.parametrize(
    ("where", "end"), [(COPY, 11), (ORDERS, 39)], ids=["a copy has grown", "an own topic has shrunk"]
)
def test_nothing_else_may_have_moved(pair: Any, where: TopicPartition, end: int) -> None:
    """Copies have no writer but MirrorMaker 2, which is stopped; and no log gets shorter."""
    pair.stopped(remote="primary.orders")
    pair.clusters["standby"].log_ends[where] = end
    with pytest.raises(AirflowFailException, match="Log ends of the target moved before open_target"):
        open_(pair)
    assert Entry.INTENT not in pair.kinds(Step.OPEN_TARGET)


def test_on_any_other_pair_own_topics_stand_still(make_bench: Callable[..., Any]) -> None:
    """Flows that run in turn have one cluster that takes writes."""
    bench = make_pair(make_bench, runs="in_turn")
    bench.stopped(remote="primary.orders")
    bench.clusters["standby"].log_ends[ORDERS] = 55
    with pytest.raises(AirflowFailException, match="Log ends of the target moved"):
        open_(bench)


@pytest.mark.parametrize(
    ("runs", "policy", "copy", "begins"),
    [
        ("always", "boundary", False, 40),
        ("always", "earliest", False, 3),
        ("always", "boundary", True, 7),
        ("in_turn", "boundary", False, 3),
    ],
    ids=["local view", "local view, by default", "global view", "flows in turn"],
)
def test_only_a_local_view_of_policy_boundary_begins_at_the_end(
    make_bench: Callable[..., Any], runs: str, policy: str, copy: bool, begins: int
) -> None:
    """A group that read the copy of the target's records goes on in them, whatever its policy."""
    bench = make_pair(make_bench, runs, groups=[{"pattern": "g", "policy": policy}])
    bench.clusters["standby"].log_starts[ORDERS] = 3
    procedure = bench.stopped(remote="primary.orders")
    rows = [("orders", "primary.orders", 4), *([("standby.orders", "orders", 7)] if copy else [])]
    frame = pd.DataFrame(rows, columns=["topic", "target_topic", "target_position"])
    frame = frame.assign(group="g", partition=0, position=5).assign(**{"class": "CONTENT"})
    frame["target_position"] = frame["target_position"].astype("Int64")
    receipt = procedure.artifacts.save("positions", frame)
    bench.done(procedure, Step.TRANSLATE_OFFSETS, digest="t" * 64, translation=receipt, exact=1, positions=1)
    wanted = wanted_positions(bench.procedure())
    assert dict(zip(wanted["topic"], wanted["position"], strict=True)) == {"primary.orders": 4, "orders": begins}


@pytest.mark.parametrize("state", ["RUNNING", "STOPPED"])
def test_a_reverse_flow_that_always_runs_keeps_its_offsets(make_bench: Callable[..., Any], state: str) -> None:
    """Also while somebody has stopped it: records below the boundary may have no copy yet."""
    bench = make_pair(make_bench, **{"s.source": state})
    bench.stopped(remote="primary.orders")
    seeded = SeedReverseReplication(task_id="seed_reverse_replication").act(bench.procedure(), bench.context())
    assert isinstance(seeded, ReverseFlowSeeded) and seeded.seeded == 0 and "always runs" in str(seeded.why_not)
    assert bench.workers["primary"].offsets_set == {}


def test_what_is_copied_is_read_before_the_logs_are(pair: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Connect's offset first, then the copies' log ends, then the originals': else an uncopied one could be passed."""
    procedure = pair.stopped(remote="primary.orders")
    pair.done(procedure, Step.FORECAST, plan={"copies": {"standby.orders": "orders"}})
    pair.clusters["primary"].partitions |= {"standby.orders": {0: 1}}
    pair.clusters["primary"].log_ends[BACK] = 36
    pair.workers["primary"].replicated = {ORDERS: 33}
    asked: list[str] = []
    for name, owner in (("offsets", pair.workers["primary"]), ("ends", None)):
        for alias, cluster in pair.clusters.items() if owner is None else [("connect", owner)]:
            call = getattr(cluster, name)

            def told(*args: Any, alias: str = alias, call: Any = call, **kwargs: Any) -> Any:
                asked.append(alias)
                return call(*args, **kwargs)

            monkeypatch.setattr(cluster, name, told)
    monkeypatch.setattr(prefixed_topics, "syncs_of_the_other_flow", lambda procedure: [])
    monkeypatch.setattr(prefixed_topics, "write_portions", lambda *_: None)
    write_prefixed_copies(pair.procedure(), tmp_path, BOUNDS)
    assert [alias for alias in asked if alias in ("connect", "primary", "standby")] == ["connect", "primary", "standby"]
    found = pd.read_parquet(tmp_path / "segments.parquet", dtype_backend="numpy_nullable")
    columns = ["source_from", "source_to", "target_from", "target_to", "copied_back", "drained", "copied_to"]
    assert found[columns].values.tolist() == [
        [0, 36, 0, 40, True, False, 34],
        [36, pd.NA, 40, pd.NA, False, False, pd.NA],
    ]


@pytest.mark.parametrize(
    ("runs", "state", "moved", "expected"),
    [
        ("always", "RUNNING", True, {ORDERS: 10}),
        ("always", "STOPPED", True, {ORDERS: 10}),
        ("in_turn", "RUNNING", True, {ORDERS: 10}),
        ("in_turn", "STOPPED", False, {ORDERS: 10}),
        ("in_turn", "STOPPED", True, None),
    ],
)
def test_only_the_journal_of_a_stopped_flow_says_that_nothing_lacks_a_copy(
    make_bench: Callable[..., Any], tmp_path: Path, runs: str, state: str, moved: bool, expected: Any
) -> None:
    """Whatever else may run, or was never seen to stop, may lack copies."""
    trips = Trips(make_pair(make_bench, runs, **{"s.source": state}), tmp_path)
    if moved:
        back_again(trips, begun=106)
    run = trips.begin("primary", "standby")
    assert copied_by_now(run, [ORDERS]) == expected


def test_records_that_a_failback_kept_part_a_growing_copy_too(make_bench: Callable[..., Any], tmp_path: Path) -> None:
    """The older segment is known to the last copy; only the newest one grows."""
    trips = Trips(make_pair(make_bench), tmp_path)
    back_again(trips, begun=106)
    trips.begin("primary", "standby")
    trips.opens({ORDERS: 120, BACK: 43}, {COPY: 117})
    known = History.of(trips.begin("standby", "primary"))
    assert segments_of_growing_copy(known, COPY, ORDERS, 130, 140, 125) == (
        CopiedSegment(0, 104, 0, 100, copied_back=True, drained=True),
        CopiedSegment(104, 130, 107, 140, copied_back=True, drained=False, copied_to=125),
        CopiedSegment(130, None, 140, None, copied_back=False),
    )
    refused = segments_of_growing_copy(known, COPY, ORDERS, 103, 140, 125)
    assert refused == (CopiedSegment(104, None, 140, None, copied_back=False),), "it begins beyond the log's end"


def test_of_a_lost_copy_that_grew_on_no_end_is_guessed(make_bench: Callable[..., Any], tmp_path: Path) -> None:
    """What the journal says is older than the records that were copied since."""
    trips = Trips(make_pair(make_bench), tmp_path)
    trips.begin("primary", "standby")
    trips.opens({ORDERS: 100}, {COPY: 104})
    trips.begin("standby", "primary")
    trips.opens({ORDERS: 40, COPY: 104}, {BACK: 43})
    trips.begin("primary", "standby")
    rows = bounds_of_lost_copies(trips.procedure, ["standby.orders"])
    assert pd.isna(rows["cut_off"][0]) and not rows["drained"][0]


@pytest.mark.parametrize(("runs", "waits"), [("always", False), ("in_turn", True)])
def test_a_flow_that_always_runs_is_never_at_rest(make_bench: Callable[..., Any], runs: str, waits: bool) -> None:
    """One that is stopped beside a running opposite is a fault, not a flow that waits for its turn."""
    bench = make_pair(make_bench, runs)
    flow = bench.opened().flow
    stopped, running = (
        SimpleNamespace(source_connectors=(SimpleNamespace(stopped=not runs, runs=runs),)) for runs in (False, True)
    )
    observation: Any = SimpleNamespace(flow=stopped, reverse=running)
    assert waits_for_its_turn(flow, observation) is waits
