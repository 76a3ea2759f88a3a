"""Which sources are armed, by the journal alone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.domain.fencing.armed_fence import (
    AcceptedRange,
    WatchState,
    accepted_ranges,
    armed_fences,
    last_moves,
    shrunk_logs,
    unstopped_sources,
    watched_sources,
)
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.vocabulary import Entry, Step

from tests.support.facts import entry

TEN = datetime(2026, 11, 22, 10, tzinfo=UTC)
WATCHER = Step.WATCH_OLD_SOURCE.value


def line(procedure: str, step: str, kind: str, **payload: Any) -> Any:
    """An entry without its time."""
    return entry(step, kind, None, procedure, **payload)


def told(*lines: Any) -> list[Any]:
    """Entries, a second apart."""
    return [SimpleNamespace(**vars(one) | {"at": TEN + timedelta(seconds=n)}) for n, one in enumerate(lines)]


def opened(procedure: str = "p", source: str = "east", target: str = "west") -> Any:
    """A procedure that was opened."""
    return line(procedure, Step.OPEN_PROCEDURE, Entry.OPENED, source=source, target=target)


def arms(procedure: str = "p", topics: Sequence[str] = ("orders",)) -> Any:
    """fence_source armed."""
    return line(
        procedure,
        Step.FENCE_SOURCE,
        Entry.INTENT,
        arms_fence={"source": "east", "target": "west", "topics": list(topics)},
    )


def by_watcher(stopped: bool, procedure: str = "p", writer: str = WATCHER) -> Any:
    """The watcher fenced it."""
    return line(writer, Step.WATCH_OLD_SOURCE, Entry.OUTCOME, procedure_id=procedure, mirror_maker_stopped=stopped)


def answers(since: str, procedure: str = "p") -> Any:
    """The watcher saw it answer."""
    return line(WATCHER, Step.WATCH_OLD_SOURCE, Entry.NOTE, procedure_id=procedure, answers_since=since)


def ended(procedure: str = "p", how: str = "by acl") -> Any:
    """fence_source ended."""
    return line(procedure, Step.FENCE_SOURCE, Entry.OUTCOME, fenced=how)


def disarms(procedure: str = "p") -> Any:
    """A failback took it over."""
    return line("f", Step.WATCH_OLD_SOURCE, Entry.NOTE, disarms_fence=procedure)


def returns(procedure: str = "p", **payload: Any) -> Any:
    """return_to_source meant something."""
    return line(procedure, Step.RETURN_TO_SOURCE, Entry.INTENT, **payload)


OPENS = (opened("f", "west", "east"), line("f", Step.OPEN_TARGET, Entry.INTENT, removes_acl_entries=[]))


@pytest.mark.parametrize(("after", "state"), [
    ((), WatchState.ARMED),
    ((ended(how="armed"),), WatchState.ARMED),
    ((line("p", Step.FENCE_SOURCE, Entry.INTENT, **{"try": 2}),), WatchState.ARMED),
    ((line("p", Step.FENCE_SOURCE, Entry.REFUSAL, reason="r"),), WatchState.ARMED),
    ((line("p", Step.CLOSE_PROCEDURE, Entry.CLOSED, outcome="completed"),), WatchState.ARMED),
    ((opened("q", "east", "west"), line("q", Step.OPEN_TARGET, Entry.INTENT)), WatchState.ARMED),
    ((returns(**{"try": 1}),), WatchState.ARMED),
    ((line("p", Step.RETURN_TO_SOURCE, Entry.REFUSAL, reason="The target is open"),), WatchState.ARMED),
    ((line(WATCHER, Step.WATCH_OLD_SOURCE, Entry.INTENT, procedure_id="p", adds_acl_entries=[]),), WatchState.ARMED),
    ((answers("t"),), WatchState.ARMED),
    ((by_watcher(False, "q"),), WatchState.ARMED),
    ((ended("q"),), WatchState.ARMED),
    ((ended(),), WatchState.OVER),
    ((ended(how="by hook"),), WatchState.OVER),
    ((by_watcher(True),), WatchState.OVER),
    ((by_watcher(True, writer="p"),), WatchState.OVER),
    ((by_watcher(False),), WatchState.FENCED),
    ((by_watcher(False), by_watcher(False)), WatchState.FENCED),
    ((by_watcher(False), by_watcher(True)), WatchState.OVER),
    ((by_watcher(True), by_watcher(False)), WatchState.OVER),
    ((disarms(),), WatchState.DISARMED),
    ((by_watcher(False), disarms()), WatchState.DISARMED),
    ((disarms(), by_watcher(False)), WatchState.DISARMED),
    ((returns(reopens_source=True),), WatchState.REOPENED),
    ((line("p", Step.RETURN_TO_SOURCE, Entry.OUTCOME, touched=True),), WatchState.REOPENED),
    ((by_watcher(True), returns(reopens_source=True)), WatchState.REOPENED),
    ((returns(reopens_source=True), by_watcher(False)), WatchState.REOPENED),
    (OPENS, WatchState.REOPENED),
    ((by_watcher(True), *OPENS), WatchState.REOPENED),
    ((by_watcher(True), arms()), WatchState.ARMED),
    ((disarms(), arms()), WatchState.ARMED),
])  # fmt: skip
def test_what_ends_a_watch_and_what_does_not(after: tuple[Any, ...], state: WatchState) -> None:
    """One row a history; twice the same entries make no difference."""
    for lines in ((opened(), arms(), *after), tuple(one for one in (opened(), arms(), *after) for _ in range(2))):
        entries = told(*lines)
        assert watched_sources(entries)["p"].state is state
        assert [fence.procedure_id for fence in armed_fences(entries)] == ["p"] * (state is WatchState.ARMED)
        assert [fence.procedure_id for fence in unstopped_sources(entries)] == ["p"] * (state is WatchState.FENCED)


def test_who_reopened_it_is_known() -> None:
    """The procedure that gave it back, or the one that opened it as its target."""
    assert watched_sources(told(opened(), arms(), returns(reopens_source=True)))["p"].reopened_by == "p"
    assert watched_sources(told(opened(), arms(), *OPENS))["p"].reopened_by == "f"


def test_armed_again_while_armed_it_is_so_since_the_first_time() -> None:
    """Its topics are those named last; the first answer stays the first."""
    (fence,) = armed_fences(told(opened(), arms(), answers("t1"), answers("t2"), arms(topics=["orders", "pay"])))
    assert (fence.since, fence.topics, fence.answers_since) == (TEN + timedelta(seconds=1), ("orders", "pay"), "t1")


def test_armed_anew_it_begins_anew() -> None:
    """After its end neither the time nor the answer of before counts."""
    (fence,) = armed_fences(told(opened(), arms(), answers("t1"), by_watcher(True), arms()))
    assert (fence.since, fence.answers_since) == (TEN + timedelta(seconds=4), None)


def test_an_entry_about_nothing_that_was_armed_changes_nothing() -> None:
    """Late words of a watcher about a procedure that nobody knows."""
    assert (
        watched_sources(told(by_watcher(True), answers("t"), disarms(), ended(), returns(reopens_source=True), *OPENS))
        == {}
    )


PROCEDURES = ("p", "q")
EVENTS = st.tuples(
    st.sampled_from(PROCEDURES),
    st.sampled_from(["arm", "fence", "fence half", "by acl", "disarm", "return", "answers", "noise"]),
)


def event(procedure: str, what: str) -> Any:
    """An event as an entry."""
    made = {
        "arm": arms,
        "by acl": ended,
        "disarm": disarms,
        "noise": lambda p: line(p, Step.FENCE_SOURCE, Entry.INTENT, **{"try": 2}),
    }
    if what in made:
        return made[what](procedure)
    if what == "return":
        return returns(procedure, reopens_source=True)
    return answers("t", procedure) if what == "answers" else by_watcher(what == "fence", procedure)


@given(st.lists(st.tuples(EVENTS, st.integers(1, 3)), max_size=20))
def test_armed_is_what_nothing_ended_since_it_was_armed(history: list[tuple[tuple[str, str], int]]) -> None:
    """Whatever happens in whatever order, and however often each entry is repeated, of several procedures of one
    source.
    """
    lines = [event(*what) for what, times in history for _ in range(times)]
    found = {fence.procedure_id for fence in armed_fences(told(*lines))}
    for procedure in PROCEDURES:
        telling = [what for (whose, what), _ in history if whose == procedure and what not in ("answers", "noise")]
        assert (procedure in found) == (bool(telling) and telling[-1] == "arm")


@given(st.lists(EVENTS, max_size=15))
def test_procedures_do_not_disturb_each_other(history: list[tuple[str, str]]) -> None:
    """What one procedure's entries say is the same without the other's."""
    entries = told(*(event(*what) for what in history))
    alone = [one for one, (whose, _) in zip(entries, history, strict=True) if whose == "p"]
    assert watched_sources(entries).get("p") == watched_sources(alone).get("p")


ORDERS, PAY = TopicPartition("orders", 0), TopicPartition("pay", 3)


@pytest.mark.parametrize(("known", "ends", "rows", "lost"), [
    ({}, {}, [], []),
    ({ORDERS: 5}, {ORDERS: 5}, [], []),
    ({ORDERS: 5}, {ORDERS: 7}, [AcceptedRange("orders", 0, 5, 7)], []),
    ({ORDERS: 5}, {ORDERS: 3}, [], ["orders-0: 5 -> 3"]),
    ({ORDERS: 5}, {}, [], ["orders-0: 5 -> gone"]),
    ({}, {ORDERS: 0}, [], []),
    ({}, {PAY: 2, ORDERS: 1}, [AcceptedRange("orders", 0, None, 1), AcceptedRange("pay", 3, None, 2)], []),
])  # fmt: skip
def test_what_was_accepted_lies_above_the_known_ends(known: Any, ends: Any, rows: Any, lost: Any) -> None:
    """An unknown end is no zero; a shorter log is no acceptance."""
    assert accepted_ranges(known, ends) == rows and shrunk_logs(known, ends) == lost


def opens(procedure: str, kind: str = Entry.INTENT) -> Any:
    """open_target began, or ended."""
    return line(procedure, Step.OPEN_TARGET, kind)


@pytest.mark.parametrize(("after", "mover"), [
    ((opened(),), None),
    ((opened(), opens("p")), "p"),
    ((opened(), opens("p"), opens("p", Entry.OUTCOME)), "p"),
    ((opened(), opens("p", Entry.REFUSAL)), None),
    ((opened(), opens("p"), returns(reopens_source=True)), None),
    ((opened(), opens("p"), returns(**{"try": 1})), "p"),
    ((opened(), opens("p"), opened("f", "west", "east")), "p"),
    ((opened(), opens("p"), opened("f", "west", "east"), opens("f")), "f"),
    ((opened(), opens("p"), opened("f", "west", "east"), opens("f"), returns("f", reopens_source=True)), "p"),
    ((opened(), opens("p"), opened("q", "west", "south"), opens("q")), "p"),
    ((opens("p"),), None),
])  # fmt: skip
def test_the_last_change_of_sides_says_where_clients_are(after: Sequence[Any], mover: str | None) -> None:
    """The last one that was begun and not taken back, of this very pair."""
    move = last_moves(told(*after)).get(frozenset(("east", "west")))
    assert (move and move.procedure_id) == mover


def test_a_move_is_of_a_pair_in_no_order() -> None:
    """A failback is of the same pair as the failover before it."""
    (move,) = last_moves(told(opened(), opens("p"))).values()
    assert (move.source, move.target, move.pair) == ("east", "west", frozenset(("west", "east")))
