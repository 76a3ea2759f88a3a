"""Which notices a procedure's journal makes due: each event once, whenever and however often it is read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.domain.notices.notice import SEVERITIES, Event, Notice
from kafka_dr.domain.notices.procedure_notices import DRILL, procedure_notices
from kafka_dr.vocabulary import Entry, Step

from tests.support.facts import entry

TEN = datetime(2026, 11, 22, 10, tzinfo=UTC)
REVIEW = Step.REVIEW_TRANSLATION


class Told:
    """A journal that is written second by second."""

    def __init__(self, dag_id: str = "planned_failover", **deadlines: float) -> None:
        self.lines: list[Any] = []
        request = {"deadlines": {"max_fence_seconds": 600.0, **deadlines}}
        run = {"dag_id": dag_id, "run_id": "r 1", "source": "east", "target": "west", "reason": "why"}
        self.says(0, Step.OPEN_PROCEDURE, Entry.OPENED, **run, request=request)

    def says(self, second: float, step: str, kind: str, **payload: Any) -> Told:
        """Add one entry."""
        self.lines.append(entry(step, kind, TEN + timedelta(seconds=second), **payload))
        return self

    def asks(self, second: float, gate: str = REVIEW, wait: float = 100.0) -> Told:
        """Let a gate ask a question."""
        self.says(second, gate, Entry.INTENT, **{"try": 1})
        asked = {"asks": "Commit these positions? Translation", "digest": "d" * 64, "figures": ["3 are not exact."]}
        return self.says(second, gate, Entry.INTENT, wait_seconds=wait, **asked)

    def fenced(self, second: float) -> Told:
        """Begin the fence at a second, and prove it four seconds later."""
        self.says(second, Step.FENCE_PRODUCERS, Entry.INTENT, **{"try": 1})
        return self.says(second + 4, Step.FENCE_PRODUCERS, Entry.OUTCOME)

    def closed(self, second: float, outcome: str) -> Told:
        """End the procedure."""
        end = {"outcome": outcome, "failing_step": "open_target", "reason_for_outcome": "because"}
        return self.says(second, Step.CLOSE_PROCEDURE, Entry.CLOSED, **end)

    def at(self, second: float) -> list[Notice]:
        """Return what is due at a second."""
        return procedure_notices("p-1", self.lines, TEN + timedelta(seconds=second))

    def events(self, second: float) -> list[str]:
        """Return the events that are due at a second."""
        return [notice.event.value for notice in self.at(second)]


@pytest.mark.parametrize(
    ("missing", "absent", "event"), [(0, [], "completed"), (3, [], "clusters_differ"), (0, ["born"], "clusters_differ")]
)
def test_a_comparison_says_whether_the_clusters_differ(missing: int, absent: list[str], event: str) -> None:
    """As it ends green either way, its notice is a warning if they do, with the counts."""
    told = Told("reconcile_clusters")
    told.says(1, Step.SET_BOUNDS, Entry.OUTCOME, absent=absent)
    told.says(2, Step.COMPARE_RECORDS, Entry.OUTCOME, missing=missing)
    (notice,) = told.closed(3, "completed").at(4)
    assert notice.event == event and notice.severity == SEVERITIES[Event(event)]
    assert ("3 missing on the target" in notice.lines[1]) == bool(missing)
    assert ("lacks 1 topic" in notice.lines[1]) == bool(absent)


def test_nothing_is_due_before_a_procedure_is_opened() -> None:
    """A journal without entries, or of a run that was never opened, makes nothing due."""
    assert procedure_notices("p-1", [], TEN) == []
    assert Told().at(5) == []


def test_a_gate_that_asks_is_told_with_its_figures_and_its_deadline() -> None:
    """Question, first digits of the digest, figures, seconds left, and the page on which to answer."""
    (notice,) = Told().asks(10).at(20)
    assert notice.title() == "[warning] east->west: gate opened: review_translation of planned_failover"
    body = "\n".join(notice.body(TEN + timedelta(seconds=20), "https://air"))
    assert "Commit these positions? Translation dddddddddddd\n" in body and "3 are not exact." in body
    assert "Time left: 90 s, until 2026-11-22 10:01:50 UTC." in body and "Another person" in body
    assert body.endswith("https://air/dags/planned_failover/runs/r%201/tasks/review_translation/required_actions")
    assert "d" * 13 not in body


def test_a_gate_that_began_but_asks_nothing_is_not_told() -> None:
    """review_translation begins in every run, and asks only where positions are not exact."""
    told = Told().says(10, REVIEW, Entry.INTENT, **{"try": 1})
    assert told.events(20) == told.says(11, REVIEW, Entry.OUTCOME, asked=False).events(200) == []


def test_half_of_a_gates_time() -> None:
    """Due from the half on, until the deadline is over."""
    told = Told().asks(10)
    assert told.events(59.9) == ["gate_opened"]
    assert told.events(60) == told.events(109.9) == ["gate_opened", "gate_half_time"]
    assert told.events(110) == []


def test_a_fence_shortens_the_time_of_a_gate() -> None:
    """The run returns when the fence is over, whatever the gate would wait."""
    told = Told(max_fence_seconds=60.0).fenced(0).asks(10, wait=1000.0)
    (gate,) = [notice for notice in told.at(20) if notice.gate]
    assert gate.until == TEN + timedelta(seconds=60)
    assert "gate_half_time" in told.events(35)


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        (Entry.OUTCOME, {"asked": True}),
        (Entry.REFUSAL, {"reason": "rejected"}),
        (Entry.FAILURE, {"reason": "no answer of Airflow's API"}),
        (Entry.NOTE, {"answer_ignored": "the starter answered"}),
    ],
)
def test_an_answered_gate_is_not_told_any_more(kind: Entry, payload: dict[str, Any]) -> None:
    """Neither that it opened nor its half-time."""
    assert Told().asks(10).says(30, REVIEW, kind, **payload).events(80) == []


def test_a_killed_gate_asks_the_same_question_and_an_ignored_answer_makes_a_new_one() -> None:
    """People are told once of a question, however often Airflow starts the gate, and once of the next one."""
    told = Told().asks(10)
    (first,) = told.at(20)
    assert [n.id for n in told.asks(15).at(20)] == [first.id]
    told.says(21, REVIEW, Entry.NOTE, answer_ignored="the starter answered").asks(25)
    (second,) = told.at(30)
    assert second.id != first.id


def test_an_abort_or_a_rollback_ends_the_question() -> None:
    """Nobody is asked to answer a gate of a run that goes back."""
    told = Told().asks(10).says(12, Step.RETURN_TO_SOURCE, Entry.INTENT, reopens_source=True)
    assert told.events(80) == []


def test_a_fence_is_told_once_it_is_proven_and_at_half_of_its_time() -> None:
    """The clock runs from the first intent; the half comes even if the fence cannot be proven."""
    told = Told().says(100, Step.FENCE_PRODUCERS, Entry.INTENT, **{"try": 1})
    assert told.events(399) == [] and told.events(400) == ["fence_half_time"]
    told.says(104, Step.FENCE_PRODUCERS, Entry.OUTCOME)
    assert told.events(110) == ["fence_on"]
    (fence,) = told.at(110)
    assert fence.until == TEN + timedelta(seconds=700) and fence.flow == "east->west"
    assert told.events(400) == ["fence_on", "fence_half_time"]


def test_a_fence_that_is_over_is_not_told() -> None:
    """Not once the target is being opened, clients were sent on, or the run was rolled back."""
    assert Told().fenced(100).says(120, Step.OPEN_TARGET, Entry.INTENT).events(500) == []
    assert Told().fenced(100).says(120, Step.RETURN_TO_SOURCE, Entry.OUTCOME, touched=True).events(500) == []


def test_the_fence_of_a_lost_source_is_told_unless_it_is_armed() -> None:
    """An armed fence is not on; the watcher tells when the source comes back."""
    armed = Told("unplanned_failover").says(50, Step.FENCE_SOURCE, Entry.OUTCOME, fenced="armed", armed_at="10:00")
    assert armed.events(60) == []
    by_hook = Told("unplanned_failover").says(50, Step.FENCE_SOURCE, Entry.OUTCOME, fenced="by hook", fenced_at="now")
    assert by_hook.events(60) == ["fence_on"]


@pytest.mark.parametrize("outcome", ["completed", "returned", "refused", "aborted", "failed"])
def test_each_end_is_told(outcome: str) -> None:
    """With the reason, and what to do."""
    (notice,) = Told().closed(50, outcome).at(60)
    assert notice.event == Event(outcome) and f"ended as {outcome}: because" in notice.lines[0]
    assert "planned_failover at open_target" in notice.title()


def test_an_end_that_is_written_again_is_one_end_and_a_continued_run_ends_again() -> None:
    """A killed close_procedure writes its end twice; a person who clears the failed step makes a second end."""
    told = Told().closed(50, "failed").closed(51, "failed")
    assert told.events(60) == ["failed"]
    told.says(70, Step.OPEN_TARGET, Entry.INTENT, **{"try": 2}).closed(80, "completed")
    assert told.events(90) == ["failed", "completed"]
    assert len({notice.id for notice in told.at(90)}) == 2


def test_a_failed_drill_is_an_event_of_its_own() -> None:
    """A drill that completed is told like any run."""
    assert Told(DRILL).closed(50, "failed").events(60) == ["drill_failed"]
    assert Told(DRILL).closed(50, "completed").events(60) == ["completed"]


def test_what_the_watcher_saw_after_the_end_is_told() -> None:
    """Once each, although the procedure is closed."""
    told = Told("unplanned_failover").closed(50, "completed")
    for second in (60, 70):
        told.says(second, Step.WATCH_OLD_SOURCE, Entry.NOTE, answers_since="10:01", procedure_id="p-1")
        told.says(second, Step.WATCH_OLD_SOURCE, Entry.NOTE, contested=["p.source is RUNNING"], contested_at="10:02")
    assert told.events(80) == ["completed", "source_came_back", "contested"]


def test_a_continued_run_tells_of_no_fence() -> None:
    """The run that continues it has the clusters, and their fence."""
    told = Told().fenced(100).says(150, Step.OPEN_PROCEDURE, Entry.NOTE, continued_by="p-2")
    assert told.events(500) == []


def test_each_event_has_a_severity() -> None:
    """No route can be asked about an event that the table lacks."""
    assert set(SEVERITIES) == set(Event)


def test_without_airflows_address_the_run_is_named() -> None:
    """A link that cannot be made is no reason not to tell."""
    (notice,) = Told().closed(50, "completed").at(60)
    assert notice.body(TEN, "")[-1].startswith("Run r 1 of the DAG planned_failover (no link")


_STEPS = st.sampled_from(
    [
        lambda told, at: told.asks(at),
        lambda told, at: told.asks(at, Step.APPROVE_FAILOVER, 300.0),
        lambda told, at: told.says(at, REVIEW, Entry.OUTCOME, asked=True),
        lambda told, at: told.says(at, REVIEW, Entry.NOTE, answer_ignored="starter"),
        lambda told, at: told.fenced(at),
        lambda told, at: told.says(at, Step.OPEN_TARGET, Entry.INTENT),
        lambda told, at: told.says(at, Step.RETURN_TO_SOURCE, Entry.OUTCOME, touched=True),
        lambda told, at: told.closed(at, "failed"),
        lambda told, at: told.closed(at, "completed"),
        lambda told, at: told.says(at, Step.WATCH_OLD_SOURCE, Entry.NOTE, answers_since="x", procedure_id="p-1"),
    ]
)


@given(st.lists(st.tuples(_STEPS, st.integers(1, 400)), max_size=12), st.lists(st.integers(0, 600), max_size=20))
def test_however_often_it_is_looked_each_event_has_one_id(steps: list[Any], looks: list[int]) -> None:
    """Whoever sends each id once sends each question, half, fence and end once: ids never change meaning."""
    told, second = Told(), 0
    seen: dict[str, tuple[Any, ...]] = {}

    def look(at: int) -> None:
        due = told.at(at)
        assert len({notice.id for notice in due}) == len(due)
        for notice in due:
            about = (notice.event, notice.at if not notice.event.value.endswith("half_time") else notice.gate)
            assert seen.setdefault(notice.id, about) == about
            assert notice.at <= TEN + timedelta(seconds=at)

    for step, pause in steps:
        second += pause
        step(told, second)
        look(second + 5)
    for later in sorted(looks):
        look(second + 5 + later)
    questions = {(about[0], about[1]) for about in seen.values() if about[0] is Event.GATE_OPENED}
    assert len(questions) == len([1 for about in seen.values() if about[0] is Event.GATE_OPENED])
