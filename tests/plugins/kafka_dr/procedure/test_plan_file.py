"""The plan is a file beside the evidence; the journal holds its receipt and its digest."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowFailException
from kafka_dr.domain.canonical_json import digest_of
from kafka_dr.errors import Contradiction
from kafka_dr.steps.shared.close_procedure import CloseProcedure
from kafka_dr.steps.shared.return_to_source import ReturnToSource
from kafka_dr.vocabulary import Step

from tests.support.bench import Bench
from tests.support.facts import figures_of


def plan_of(bench: Bench) -> Path:
    """The plan's file."""
    (path,) = bench.procedure().artifacts.folder.glob("plan-*.json")
    return path


def test_the_journal_holds_digest_and_receipt_alone(bench: Bench) -> None:
    """Later steps read the same plan as the approver."""
    bench.planned(groups=("billing",))
    (_, forecast) = bench.entries(Step.FORECAST)
    assert "plan" not in forecast.payload
    move = bench.procedure().progress.move()
    assert digest_of(move.whole_plan) == move.plan_digest == forecast.payload["plan_digest"]
    assert [group.group for group in move.planned.groups] == ["billing"]
    assert json.loads(plan_of(bench).read_text()) == figures_of(bench.procedure(), Step.FORECAST)["plan"]


DAMAGE: dict[str, Callable[[Path], object]] = {
    "the file is missing": lambda path: path.unlink(),
    "the SHA-256 of the file begins with": lambda path: path.write_text(path.read_text().replace("billing", "payroll")),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_another_plan_is_refused_and_the_way_back_needs_none(bench: Bench, damage: str) -> None:
    """Evidence is written without it, and says so."""
    bench.planned(groups=("billing",))
    DAMAGE[damage](plan_of(bench))
    with pytest.raises(Contradiction, match=damage):
        bench.procedure().progress.move()
    ReturnToSource(task_id=Step.RETURN_TO_SOURCE.value).execute(bench.context())
    with pytest.raises(AirflowFailException, match="refused|returned"):
        CloseProcedure(task_id=Step.CLOSE_PROCEDURE.value).execute(bench.context())
    evidence = json.loads((bench.procedure().artifacts.folder / "evidence.json").read_text())
    assert evidence["plan"] is None and damage in evidence["problems"][0]
