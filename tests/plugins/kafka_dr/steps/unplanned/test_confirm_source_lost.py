"""confirm_source_lost: goes on for a lost source alone, unless the run says why; everything it saw is written
down.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from kafka_dr.domain.loss.source_lost import Look, LossVerdict, Sight, verdict_of
from kafka_dr.errors import BadInput
from kafka_dr.steps.unplanned import confirm_source_lost as confirming
from kafka_dr.steps.unplanned.confirm_source_lost import ConfirmSourceLost
from kafka_dr.vocabulary import Entry, Step

from tests.support.facts import figures_of

STEP = Step.CONFIRM_SOURCE_LOST
WHY = "the data centre is flooded"


def seen(*sights: Sight) -> LossVerdict:
    """A verdict of the view from here alone."""
    return verdict_of(
        [Look("here", sight, f"words {n}", 0.1, f"2026-01-01T00:00:0{n}+00:00", n) for n, sight in enumerate(sights)],
        len(sights),
    )


LOST, ANSWERS, REFUSES, SLOW, UNDECIDED = (
    seen(s, s, s) for s in (Sight.GONE, Sight.ANSWERS, Sight.REFUSES_WRITES, Sight.SLOW, Sight.UNKNOWN)
)


@pytest.fixture
def run(make_bench: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Runs the step on an opened procedure whose source looks as told; returns the bench."""
    bench = make_bench(dag_id="unplanned_failover")

    def run(verdict: LossVerdict, watched: bool = True, **params: Any) -> Any:
        bench.params |= params
        bench.opened()
        if not watched:
            bench.no_watcher()
        monkeypatch.setattr(confirming, "confirm_source_state", lambda procedure, tell: tell("100 % sure") or verdict)
        ConfirmSourceLost(task_id=STEP.value).execute(bench.context())
        return bench

    run.bench = bench
    return run


def figures(bench: Any) -> dict[str, Any]:
    """What the step wrote when it was done."""
    return figures_of(bench.procedure(), STEP)


def test_a_lost_source_lets_the_procedure_go_on(run: Callable[..., Any]) -> None:
    """The figures hold the verdict with every view, the window, and that nothing was overridden."""
    told = figures(run(LOST))
    assert (told["state"], told["overridden"], told["override"]) == ("lost", False, None)
    assert told["verdict"] == LOST.as_dict() and told["window_seconds"] >= 0
    assert (told["rounds_planned"], told["slow_seconds"]) == (3, 3.0)


@pytest.mark.parametrize(("verdict", "reason", "advice"), [
    (ANSWERS, "The source still answers", "Start planned_failover, which loses no records"),
    (REFUSES, "The source answers, but accepts no writes", "Repair the source"),
    (SLOW, "The source is slow", "Find out why the source is slow"),
    (UNDECIDED, "It is unknown whether the source is lost", "Check that the orchestrator reaches the target"),
])  # fmt: skip
def test_any_other_source_is_not_left(run: Callable[..., Any], verdict: LossVerdict, reason: str, advice: str) -> None:
    """The refusal says what was seen, what to do, and how to leave it all the same; who saw what stands in the
    journal.
    """
    with pytest.raises(AirflowFailException, match=reason) as refused:
        run(verdict)
    assert advice in str(refused.value) and "override_source_lost" in str(refused.value)
    assert "from here" in str(refused.value)
    assert run.bench.kinds(STEP) == [Entry.INTENT, Entry.NOTE, Entry.REFUSAL]
    assert figures_of(run.bench.procedure(), STEP) is None
    note, refusal = (entry.payload for entry in run.bench.entries(STEP)[1:])
    assert note["verdict"] == verdict.as_dict() and note["overridden"] is False and refusal["error"] == "SourceNotLost"


@pytest.mark.parametrize("verdict", [ANSWERS, REFUSES, SLOW, UNDECIDED], ids=lambda v: v.state.value)
def test_a_reason_overrides_and_is_written_down(run: Callable[..., Any], verdict: LossVerdict) -> None:
    """The later approval reads it from the figures, beside what the source really looked like."""
    told = figures(run(verdict, override_source_lost=f"  {WHY} "))
    assert (told["state"], told["overridden"], told["override"]) == (verdict.state.value, True, WHY)


def test_a_lost_source_needs_no_override(run: Callable[..., Any]) -> None:
    """A reason given for nothing is kept, and said to have decided nothing."""
    told = figures(run(LOST, override_source_lost=WHY))
    assert (told["overridden"], told["override"]) == (False, WHY)


def test_a_lost_source_that_nobody_watches_for_is_not_left(run: Callable[..., Any]) -> None:
    """It could only be armed, and nobody would fence it: refused while nothing is touched, so that a new run can
    start at once.
    """
    with pytest.raises(
        AirflowFailException,
        match=(
            "No process watches the old source: watch_old_source does not run. Seen: the last heartbeat of"
            " watch_old_source was at .*, 120 s ago. Next: Unpause the DAG watch_old_source"
        ),
    ):
        run(LOST, watched=False)
    assert figures_of(run.bench.procedure(), STEP) is None
    assert datetime.fromisoformat(figures(run(LOST))["watcher_seen_at"]) > datetime.now(UTC) - timedelta(minutes=1)


def test_a_source_that_answers_or_can_be_fenced_from_outside_needs_no_watcher_yet(
    run: Callable[..., Any], make_bench: Callable[..., Any]
) -> None:
    """The one is fenced by its ACLs, for the other its hook is asked."""
    assert figures(run(SLOW, watched=False, override_source_lost=WHY))["state"] == "slow"
    topology = json.loads(run.bench.topology.read_text())
    run.bench.topology.write_text(json.dumps(topology | {"fence_hook": {"connection": "net"}}))
    del run.bench.params["override_source_lost"]
    assert figures(run(LOST, watched=False))["state"] == "lost"


def test_the_step_looks_again_when_it_runs_again(run: Callable[..., Any]) -> None:
    """A source that was lost may have come back."""
    bench = run(LOST)
    with pytest.raises(AirflowFailException, match="still answers"):
        run(ANSWERS)
    assert bench.kinds(STEP).count(Entry.OUTCOME) == 1


@pytest.mark.parametrize("bad", ["", "  ", "a\nb", "a\u202eb", "x" * 501, 3, True, ["x"]])
def test_an_override_is_a_reason_in_visible_words(make_bench: Callable[..., Any], bad: Any) -> None:
    """Like the run's reason: text on one line, not empty, not long."""
    bench = make_bench(dag_id="unplanned_failover")
    bench.params["override_source_lost"] = bad
    with pytest.raises(BadInput, match="override_source_lost"):
        bench.procedure()


def test_no_other_procedure_knows_the_override(bench: Any) -> None:
    """Where it would decide nothing it is refused."""
    bench.params["override_source_lost"] = WHY
    with pytest.raises(BadInput, match="override_source_lost': this procedure does not take it"):
        bench.procedure()


def test_null_is_no_override(run: Callable[..., Any]) -> None:
    """As the form sends it when the field is left empty."""
    with pytest.raises(AirflowFailException, match="still answers"):
        run(ANSWERS, override_source_lost=None)
