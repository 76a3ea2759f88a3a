"""commit_groups: only what differs, only to groups at rest, every position read back, the first snapshot kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import pytest
from kafka_dr.actions.offsets import client_topics
from kafka_dr.actions.offsets.commit import wanted_positions
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import ApprovalMissing, ReadBackFailed, Refusal
from kafka_dr.hooks.brokers.group_requests import Position
from kafka_dr.steps.planned.commit_groups import CommitGroups
from kafka_dr.vocabulary import Entry, Step

ORDERS = TopicPartition("orders", 0)
STEP = "commit_groups"


EXACT = {"END", "SYNC", "CONTENT"}


def translated(
    bench: Any,
    *rows: tuple[str, int | None, str],
    remote: str = "orders",
    excluded: Mapping[str, str] = {},
    reviewed: bool = True,
) -> Any:
    """A run whose translation has these groups, target positions and classes; the second person has seen it."""
    procedure = bench.stopped(remote=remote, excluded=excluded)
    columns = {"group": [r[0] for r in rows], "topic": "orders", "partition": 0, "position": 5, "target_topic": remote}
    frame = pd.DataFrame(
        {**columns, "target_position": pd.array([r[1] for r in rows], "Int64"), "class": [r[2] for r in rows]}
    )
    figures = {"exact": sum(r[2] in EXACT for r in rows), "positions": len(rows)}
    bench.done(
        procedure,
        Step.TRANSLATE_OFFSETS,
        digest="t" * 64,
        translation=procedure.artifacts.save("positions", frame),
        **figures,
    )
    if reviewed:
        bench.api.answer(Step.REVIEW_TRANSLATION, f"Commit? Translation {'t' * 64}")
    return procedure


def commit(bench: Any, procedure: Any) -> Any:
    """Run the step's act."""
    return CommitGroups(task_id=STEP).act(procedure, bench.context())


def held(bench: Any) -> dict[str, int]:
    """Positions on the target's orders-0, by group."""
    return {group: at[ORDERS].offset for group, at in bench.clusters["standby"].committed.items() if ORDERS in at}


def test_every_placed_position_is_committed_and_read_back(bench: Any) -> None:
    """A refused position and one without a place are left out; the ledger has a row for each of the others."""
    procedure = translated(bench, ("a", 4, "CONTENT"), ("b", 9, "END"), ("c", None, "REFUSED"), ("d", 2, "REFUSED"))
    figures = commit(bench, procedure)
    assert held(bench) == {"a": 4, "b": 9} and (figures.positions, figures.committed, figures.groups) == (2, 2, 2)
    ledger = procedure.artifacts.load(figures.ledger)
    found = ledger[["group", "wanted", "read_back"]].to_dict("list")
    assert found == {"group": ["a", "b"], "wanted": [4, 9], "read_back": [4, 9]}


def test_a_second_run_commits_only_what_differs_and_keeps_the_first_snapshot(bench: Any) -> None:
    """What the groups held before the procedure is told for ever, whatever was committed since."""
    bench.clusters["standby"].committed["a"] = {ORDERS: Position(1)}
    procedure = translated(bench, ("a", 4, "CONTENT"), ("b", 9, "END"))
    first = commit(bench, procedure)
    bench.clusters["standby"].committed["b"] = {ORDERS: Position(3)}
    second = commit(bench, procedure)
    assert (first.committed, second.committed) == (2, 1) and held(bench) == {"a": 4, "b": 9}
    assert first.snapshot == second.snapshot
    found = procedure.artifacts.load(second.snapshot)[["group", "position"]].to_dict("list")
    assert found == {"group": ["a"], "position": [1]}


def test_an_older_position_of_a_refused_one_is_set_back(bench: Any) -> None:
    """It may lie behind records that the group has not read; one at the log start is left, and a second run does the
    same.
    """
    standby = bench.clusters["standby"]
    standby.committed |= {"a": {ORDERS: Position(7)}, "b": {ORDERS: Position(0)}, "d": {ORDERS: Position(3)}}
    procedure = translated(
        bench, ("a", None, "REFUSED"), ("b", None, "REFUSED"), ("c", None, "REFUSED"), ("d", 5, "CONTENT")
    )
    for committed in (2, 0):
        figures = commit(bench, procedure)
        assert held(bench) == {"a": 0, "b": 0, "d": 5} and (figures.positions, figures.committed) == (2, committed)
    standby.members = {"a": 1}
    with pytest.raises(Refusal, match="Groups have members on the target"):
        commit(bench, procedure)


def test_a_living_group_is_never_touched(bench: Any) -> None:
    """One group with a member stops the whole commit before the first one."""
    procedure = translated(bench, ("a", 4, "CONTENT"), ("b", 9, "END"))
    bench.clusters["standby"].members = {"b": 1}
    with pytest.raises(Refusal, match="Groups have members on the target.*b"):
        commit(bench, procedure)
    assert held(bench) == {}


def test_what_was_not_kept_is_named(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that says OK and keeps nothing: the read-back finds it, and the ledger is there."""
    procedure = translated(bench, ("a", 4, "CONTENT"))
    monkeypatch.setattr(
        bench.clusters["standby"], "commit_many", lambda positions: {g: dict.fromkeys(at, "ok") for g, at in positions}
    )
    with pytest.raises(ReadBackFailed, match="1 of 1 positions on the target differ from the committed positions"):
        commit(bench, procedure)
    assert len(list(procedure.artifacts.folder.glob("ledger-*.parquet"))) == 1


@pytest.mark.parametrize("asked", [True, False])
def test_a_translation_to_be_seen_must_have_been_approved(bench: Any, asked: bool) -> None:
    """Whatever the gate's outcome says: marked as done by hand, or forged as if there had been nothing to ask."""
    procedure = translated(bench, ("a", 4, "NEAREST"), reviewed=False)
    bench.done(procedure, Step.REVIEW_TRANSLATION, asked=asked)
    with pytest.raises(ApprovalMissing):
        commit(bench, procedure)
    assert held(bench) == {} and bench.kinds(STEP).count(Entry.INTENT) == 1


def test_an_exact_translation_needs_no_second_look(bench: Any) -> None:
    """Nobody was asked."""
    procedure = translated(bench, ("a", 4, "CONTENT"), reviewed=False)
    assert commit(bench, procedure).committed == 1


def test_local_topics_are_made_and_their_groups_start_at_their_beginning(make_bench: Any) -> None:
    """Default naming: clients go on in `orders` beside `primary.orders`, and lose none of its first records."""
    bench = make_bench(naming={"policy": "default", "separator": "."})
    procedure = translated(bench, ("a", 4, "CONTENT"), remote="primary.orders")
    del bench.clusters["standby"].partitions["orders"]
    commit(bench, procedure)
    committed = {tp: position.offset for tp, position in bench.clusters["standby"].committed["a"].items()}
    assert committed == {TopicPartition("primary.orders", 0): 4, ORDERS: 0}
    assert "orders" in bench.clusters["standby"].partitions


@pytest.mark.parametrize(("policy", "position"), [("earliest", 0), ("boundary", 10), ("fail", None)])
def test_an_excluded_group_is_placed_by_its_policy(bench: Any, policy: str, position: int | None) -> None:
    """Nobody translated its position: the log start, the boundary, or none at all, as the approver saw."""
    bench.clusters["primary"].committed["left"] = {ORDERS: Position(7)}
    procedure = translated(bench, ("a", 4, "CONTENT"), excluded={"left": policy})
    commit(bench, procedure)
    assert held(bench) == {"a": 4} | ({} if position is None else {"left": position})


def test_topics_are_made_after_the_snapshot_and_before_the_commit(make_bench: Any) -> None:
    """Computing what is wanted makes nothing, and neither does a commit that is refused."""
    bench = make_bench(naming={"policy": "default", "separator": "."})
    standby = bench.clusters["standby"]
    procedure = translated(bench, ("a", 4, "CONTENT"), remote="primary.orders")
    del standby.partitions["orders"]
    written = len(bench.entries(STEP))
    assert len(wanted_positions(procedure)) == 2
    assert "orders" not in standby.partitions and len(bench.entries(STEP)) == written
    standby.members = {"a": 1}
    with pytest.raises(Refusal, match="Groups have members on the target"):
        commit(bench, procedure)
    assert "orders" not in standby.partitions and len(bench.entries(STEP)) == written
    standby.members = {}
    commit(bench, procedure)
    acts = [entry.payload for entry in bench.entries(STEP)[written:]]
    assert [set(payload) for payload in acts] == [{"snapshot"}, {"creates_topics"}, {"positions", "of"}]
    assert acts[1] == {"creates_topics": ["orders"]}


def test_many_local_topics_are_made_by_few_requests_with_the_sources_replicas(
    make_bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease is looked at before each request; where the target has too few brokers, a note says so."""
    bench = make_bench(naming={"policy": "default", "separator": "."})
    primary, standby = bench.clusters["primary"], bench.clusters["standby"]
    procedure = translated(bench, ("a", 4, "CONTENT"), remote="primary.orders")
    names = [f"orders-{number}" for number in range(450)]
    primary.partitions |= {name: {0: 1} for name in names}
    primary.replicas |= dict.fromkeys(names, 3)
    standby.broker_ids = [1, 2]
    monkeypatch.setattr(client_topics, "missing_topics", lambda procedure: dict.fromkeys(names, 1))
    monkeypatch.setattr(client_topics, "portable_configs", lambda settings: {})
    held, hold = [], procedure.authority.hold
    monkeypatch.setattr(procedure.authority, "hold", lambda: held.append(len(standby.requested)) or hold())
    client_topics.create_missing_topics(procedure)
    assert [len(topics) for topics in standby.requested] == [200, 200, 50] and {0, 1, 2} <= set(held)
    assert standby.awaited == [dict.fromkeys(names, 1)]
    assert {standby.replicas[name] for name in names} == {2}
    notes = [entry.payload for entry in bench.entries(STEP) if "fewer_replicas" in entry.payload]
    assert [(note["topics"], note["brokers"], len(note["fewer_replicas"])) for note in notes] == [(450, 2, 100)]
    client_topics.create_missing_topics(procedure)
    assert {standby.replicas[name] for name in names} == {2}
