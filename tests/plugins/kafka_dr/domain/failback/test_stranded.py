"""Stranded records: one possible decision a topic, and a question that says what is not to be had."""

from __future__ import annotations

import pytest
from kafka_dr.domain.failback.stranded import (
    Decision,
    Mode,
    PlannedReturn,
    StrandedTotals,
    decide_topics,
    impossible_decisions,
)
from kafka_dr.domain.failback.stranded_page import return_markdown, stranded_by_topic
from kafka_dr.procedure.entries import StrandedTopic

from tests.support.facts import stranded_topic

ORDERS = StrandedTotals("orders", records=3, bytes=90, first_at=1_700_000_000_000, last_at=1_700_000_060_000, aborted=1)
TABLE = StrandedTotals("table", records=2, bytes=20, compacted=True)


def planned(mode: Mode, decision: Decision, *stranded: StrandedTotals, **more: int) -> PlannedReturn:
    """A return in which every topic is decided on alike."""
    decisions = {one.topic: decision for one in stranded}
    return PlannedReturn("standby", "primary", "the site is back", mode, "f" * 64, stranded, decisions, **more)


@pytest.mark.parametrize(
    ("rules", "decided"),
    [
        ({}, "keep"),
        ({".*": "replay"}, "replay"),
        ({".*": "replay", "ord.*": "discard"}, "discard"),
        ({"ord.*": "discard", "orders": "quarantine"}, "quarantine"),
        ({"payments": "discard"}, "keep"),
        ({"ord.*": "replay", ".*ers": "replay"}, "replay"),
    ],
)
def test_the_nearest_rule_decides(rules: dict[str, str], decided: str) -> None:
    """A topic's own name, then expressions, then `.*`; without any rule records are kept."""
    assert decide_topics(["orders"], rules) == ({"orders": Decision(decided)}, [])


def test_patterns_that_disagree_decide_nothing() -> None:
    """Nobody guesses between two patterns; the problem names the topic and both decisions."""
    _, (problem,) = decide_topics(["orders", "payments"], {"ord.*": "replay", ".*ers": "discard"})
    assert "orders" in problem and "discard and replay" in problem


@pytest.mark.parametrize(
    ("mode", "possible"), [(Mode.APPEND, {"keep"}), (Mode.RECREATE, {"replay", "quarantine", "discard"})]
)
def test_each_mode_makes_its_decisions_possible(mode: Mode, possible: set[str]) -> None:
    """In append records stay in their log; in recreate there is no log for them to stay in."""
    assert {
        decision for decision in Decision if not impossible_decisions(mode, [ORDERS], {"orders": decision}, "primary")
    } == possible


@pytest.mark.parametrize("mode", list(Mode))
def test_records_of_a_deleted_log_cannot_be_kept(mode: Mode) -> None:
    """The earlier run's export alone holds them in any mode, and the log made anew lacks nothing."""
    short = StrandedTotals("orders", records=2, lacking=7)
    assert {
        decision
        for decision in Decision
        if not impossible_decisions(mode, [short], {"orders": decision}, "primary", gone=["orders"])
    } == {"replay", "quarantine", "discard"}
    assert (
        "earlier run has deleted the log on primary"
        in impossible_decisions(mode, [short], {"orders": Decision.KEEP}, "primary", gone=["orders"])[0]
    )
    told = return_markdown(
        PlannedReturn("standby", "primary", "why", mode, "f", (short,), {"orders": Decision.DISCARD}, gone=("orders",))
    )
    assert "An earlier run has deleted the logs of orders on primary" in told
    assert ("Topics that an earlier run has deleted are copied whole: orders." in told) is (mode is Mode.APPEND)


def test_how_much_is_deleted_and_copied_is_said_and_how_long_that_takes() -> None:
    """In both modes; what nobody knows is left out."""
    recreate = return_markdown(
        planned(Mode.RECREATE, Decision.DISCARD, ORDERS, deleted=5_000, copied=1_200_000, copied_bytes=7_000)
    )
    assert (
        "5,000 bytes are deleted. All records of these topics on standby are copied: about 1,200,000 records,"
        " 7,000 bytes, 2 min 00 s at 10,000 records a second." in recreate
    )
    assert "since the failover are added: about 1 record, 0 s at 10,000 records a second." in return_markdown(
        planned(Mode.APPEND, Decision.KEEP, ORDERS, copied=1)
    )
    assert (
        "then copied whole. All records of these topics on standby are copied. primary has no replicated record"
        in return_markdown(planned(Mode.RECREATE, Decision.DISCARD, ORDERS))
    )


def test_without_stranded_records_nothing_is_impossible() -> None:
    """A decision about no records harms nobody."""
    for mode in Mode:
        for decision in Decision:
            assert (
                impossible_decisions(mode, [StrandedTotals("orders", records=0)], {"orders": decision}, "primary") == []
            )


def test_a_cluster_that_lost_its_tail_cannot_be_appended_to() -> None:
    """What the returned cluster lost is nowhere in its log; mirrored whole it comes back."""
    short = StrandedTotals("orders", records=0, lacking=7)
    (problem,) = impossible_decisions(Mode.APPEND, [short], {"orders": Decision.KEEP}, "primary")
    assert "primary has lost 7 records" in problem and "recreate" in problem
    assert impossible_decisions(Mode.RECREATE, [short], {"orders": Decision.KEEP}, "primary") == []


def test_nothing_stranded_and_append_needs_nobody() -> None:
    """What is lost, written or deleted needs a second person; adding what clients wrote since does not."""
    assert not planned(Mode.APPEND, Decision.KEEP).needs_a_person
    assert planned(Mode.RECREATE, Decision.DISCARD).needs_a_person
    assert planned(Mode.APPEND, Decision.KEEP, ORDERS).needs_a_person


def test_every_figure_and_choice_changes_the_digest() -> None:
    """An approval is of these very records, this mode, and these decisions."""
    base = planned(Mode.RECREATE, Decision.REPLAY, ORDERS)
    others = [
        planned(Mode.APPEND, Decision.REPLAY, ORDERS),
        planned(Mode.RECREATE, Decision.DISCARD, ORDERS),
        planned(Mode.RECREATE, Decision.REPLAY, TABLE),
        planned(Mode.RECREATE, Decision.REPLAY, ORDERS, deleted=5),
        planned(Mode.RECREATE, Decision.REPLAY, ORDERS, copied=5),
    ]
    assert len({one.digest for one in (base, *others)}) == len(others) + 1
    assert planned(Mode.RECREATE, Decision.REPLAY, ORDERS).digest == base.digest


def test_the_question_shows_the_figures() -> None:
    """Records, bytes, window, what no transaction committed, the decision, and both digests."""
    asked = planned(Mode.APPEND, Decision.KEEP, ORDERS)
    text = return_markdown(asked)
    assert "**Stranded on primary: 3 records**, 90 bytes" in text
    assert "| orders | 3 | 90 | 2023-11-14 22:13:20 UTC to 2023-11-14 22:14:20 UTC | 1 | 0 | 0 | keep |" in text
    assert asked.digest in text and asked.found in text


def test_the_question_says_what_cannot_be_had() -> None:
    """A replay restores no order, drops what a compacted topic's later value would lose to it; recreate deletes."""
    text = return_markdown(planned(Mode.RECREATE, Decision.REPLAY, ORDERS, TABLE, deleted=12_345))
    assert "the original order cannot be restored" in text and "Compacted topics (table)" in text
    assert "are deleted and recreated" in text and "12,345 bytes" in text
    assert "primary has no replicated record that standby no longer has" in text
    old = return_markdown(planned(Mode.RECREATE, Decision.DISCARD, StrandedTotals("old", records=0, older=1_200)))
    assert "1,200 older records that standby no longer has are in the export only" in old
    kept = return_markdown(planned(Mode.APPEND, Decision.KEEP, ORDERS))
    assert "cannot be restored" not in kept and "compacted" not in kept and "deleted" not in kept


def test_nothing_stranded_is_said() -> None:
    """An empty table says nothing; a sentence does."""
    assert "No record is stranded: all records that primary acknowledged are on standby" in return_markdown(
        planned(Mode.RECREATE, Decision.DISCARD)
    )


def test_topics_without_anything_are_left_out() -> None:
    """Each other one is as it was found, and knows whether it is compacted."""
    none = StrandedTopic(**stranded_topic("empty", records=0, undecided=1, bytes=10))
    some = StrandedTopic(**stranded_topic("orders", records=4, bytes=20, first_at=0, last_at=9, older=6))
    (found,) = stranded_by_topic([some, none], {"orders"})
    assert found == StrandedTotals("orders", records=4, bytes=20, first_at=0, last_at=9, older=6, compacted=True)


def test_where_names_part_the_directions_no_log_with_stranded_records_is_deleted() -> None:
    """They may be kept in both modes; a cluster that lost its tail goes without."""
    short = StrandedTotals("orders", records=1, lacking=7)
    for mode in Mode:
        assert impossible_decisions(mode, [short], {"orders": Decision.KEEP}, "primary", apart=True) == []
    assert impossible_decisions(Mode.APPEND, [short], {"orders": Decision.DISCARD}, "primary", apart=True)
    text = return_markdown(planned(Mode.RECREATE, Decision.REPLAY, short, apart=True))
    assert (
        "no mode deletes the topics with stranded records on primary" in text
        and "primary has lost 7 records that standby still has" in text
    )
    assert "no mode" not in return_markdown(planned(Mode.RECREATE, Decision.REPLAY, short))
    assert (
        planned(Mode.RECREATE, Decision.REPLAY, short, apart=True).digest
        != planned(Mode.RECREATE, Decision.REPLAY, short).digest
    )
