"""Gates of a drill's pass pass by themselves: nobody is asked, and the journal says so."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskAwaitingInput
from kafka_dr.procedure.entries import GatePassed, QuestionAsked, facts_in
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Entry, Step

from tests.support.bench import Bench
from tests.support.drills.drill_bench import drill_bench, pass_run, prepared_drill
from tests.support.facts import GATE, PLAN, gate, open_run, tell


@pytest.fixture
def bench(make_bench: Callable[..., Bench]) -> Bench:
    """Two clusters, with workers for drills beside both; nobody has started the passes."""
    made = drill_bench(make_bench)
    made.api.starter = None
    return made


def forecast(run: Run) -> Run:
    """Open a run, and write its plan into the journal."""
    open_run(run)
    run.authority.write(Step.FORECAST, Entry.INTENT, {"try": 1})
    tell(run, Step.FORECAST, Entry.OUTCOME, {"plan": PLAN})
    return run


def context_of(bench: Bench, run: Run, **params: Any) -> dict[str, Any]:
    """Return the context of a task of a run."""
    context = bench.context()
    context["dag_run"] = SimpleNamespace(**vars(context["dag_run"]))
    context["dag_run"].dag_id, context["dag_run"].run_id = run.identity.dag_id, run.identity.run_id
    return context | {"params": {"source": "primary", "target": "standby", "reason": "drill", **params}}


def test_the_gate_of_a_pass_asks_nobody(bench: Bench, asked: list[dict[str, Any]]) -> None:
    """Although a plan waits for approval, and nobody knows who started the run."""
    drill = prepared_drill(bench)
    made = forecast(pass_run(drill.id))
    context = context_of(bench, made, drill=drill.id)
    assert gate().execute(context) == {"done": GATE}
    written = made.journal.entries(made.id, GATE)
    assert asked == [] and not facts_in(written, QuestionAsked)
    assert [fact.asked for fact in facts_in(written, GatePassed)] == [False]
    assert not bench.journal.entries(made.id)


def test_a_gate_that_has_passed_in_a_drill_stays_open(bench: Bench, asked: list[dict[str, Any]]) -> None:
    """No approval expires, and no answer is looked for."""
    drill = prepared_drill(bench)
    made = forecast(pass_run(drill.id))
    context = context_of(bench, made, drill=drill.id)
    gate().execute(context)
    before = len(made.journal.entries(made.id, GATE))
    assert gate().execute(context) == {"done": GATE}
    assert gate().still_open(made) and len(made.journal.entries(made.id, GATE)) == before and asked == []


def test_the_same_gate_asks_in_an_ordinary_run(bench: Bench, asked: list[dict[str, Any]]) -> None:
    """The param makes the difference, and nothing else."""
    prepared_drill(bench)
    bench.dag_id, bench.api.starter = "planned_failover", "alice"
    run = forecast(bench.procedure("r9"))
    with pytest.raises(TaskAwaitingInput):
        gate().execute(context_of(bench, run))
    assert len(asked) == 1
