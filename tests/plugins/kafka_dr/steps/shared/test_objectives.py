"""Objectives from the topology to the evidence: recorded when the run opens, shown in plan, evidence and page."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import pytest
from airflow.sdk.exceptions import AirflowFailException
from kafka_dr.actions.loss.failover_plan import with_written_before
from kafka_dr.commands.verify_evidence import main as verify_evidence
from kafka_dr.procedure.entries import ProcedureOpened
from kafka_dr.steps.shared.close_procedure import CloseProcedure
from kafka_dr.steps.shared.open_procedure import OpenProcedure
from kafka_dr.vocabulary import Step

from tests.support.bench import Bench

STATED = {"rto_seconds": 0.001, "rpo_seconds": 60.0, "rpo_records": 0, "tier": "1", "basis": "BIA-7"}
MOVED = (Step.FENCE_PRODUCERS, Step.WAIT_FOR_ZERO_LAG, Step.TRANSLATE_OFFSETS, Step.REDIRECT_CLIENTS)


def state_objectives(bench: Bench, objectives: dict[str, Any]) -> None:
    """State objectives of the flow from primary to standby."""
    topology = json.loads(bench.topology.read_text())
    topology["flows"][0]["objectives"] = objectives
    bench.topology.write_text(json.dumps(topology))


def close(bench: Bench) -> dict[str, Any]:
    """Close the run; return its evidence."""
    CloseProcedure(task_id=Step.CLOSE_PROCEDURE.value).execute(bench.context())
    return evidence_of(bench)


def evidence_of(bench: Bench) -> dict[str, Any]:
    """The evidence on disk."""
    return json.loads((bench.procedure().artifacts.folder / "evidence.json").read_text())


def test_the_first_lines_name_a_breach(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """What the run opened with counts; the page and the first lines name the breach, and the page can be verified."""
    state_objectives(bench, STATED)
    procedure = bench.planned()
    for step in (*MOVED, Step.START_REVERSE_REPLICATION):
        bench.done(procedure, step)
    evidence = close(bench)
    assert evidence["objectives"] == STATED | {"drill_days": 92, "notice_hours": 24, "retest_days": 30}
    verdicts = {name: one["verdict"] for name, one in evidence["achieved"]["verdicts"].items()}
    assert verdicts == {"rto_seconds": "breached", "rpo_seconds": "met", "rpo_records": "met"}
    assert evidence["achieved"]["downtime_seconds"] == evidence["seconds"]["downtime"] > 0
    assert [text for text in evidence["warnings"] if text.startswith("Objective RTO 0.001 s breached: clients could")]
    folder = bench.procedure().artifacts.folder
    page = (folder / "evidence.html").read_text()
    assert "<h2>Objectives</h2>" in page and page.index("breached: clients could") < page.index("What to do now")
    assert verify_evidence([str(folder)]) == 0, capsys.readouterr().out


def test_a_run_that_opens_records_the_objectives_of_its_flow(bench: Bench) -> None:
    """Of source to target, not of the other direction; a run under a topology without any records none."""
    state_objectives(bench, {"rto_seconds": 60})
    OpenProcedure(task_id=Step.OPEN_PROCEDURE.value).execute(bench.context())
    opened = bench.procedure().progress.require(ProcedureOpened)
    assert opened.objectives is not None and opened.objectives["rto_seconds"] == 60.0
    assert bench.procedure().progress.objectives == opened.objectives
    assert "objectives" not in ProcedureOpened.payload(
        ProcedureOpened.from_payload(vars(opened) | {"objectives": None})
    )


def test_objectives_that_were_changed_later_do_not_change_the_evidence(bench: Bench) -> None:
    """A higher RTO after the run began: the run is judged by the one with which it was opened."""
    state_objectives(bench, STATED)
    procedure = bench.planned()
    bench.done(procedure, Step.START_REVERSE_REPLICATION)
    state_objectives(bench, STATED | {"rto_seconds": 3600})
    assert close(bench)["objectives"]["rto_seconds"] == 0.001


def test_without_objectives_the_figures_are_there_and_nothing_is_judged(bench: Bench) -> None:
    """Downtime and loss are what drills and forecasts read; a run that did not complete has none."""
    bench.planned()
    with pytest.raises(AirflowFailException):
        close(bench)
    told = evidence_of(bench)
    assert told["objectives"] is None and told["achieved"]["verdicts"] == {} and told["warnings"] == []
    assert told["achieved"]["downtime_seconds"] is None


def test_the_oldest_lost_record_was_written_before_the_first_sample_that_shows_it() -> None:
    """A sample from before `written_since`, of another log, does not count; without that time there is none."""
    loss = pd.DataFrame({"topic": ["a", "a", "b"], "partition": [0, 1, 0], "from_offset": [80, 80, 80]}).assign(
        written_since=pd.array([20, None, 20], "Int64")
    )
    samples = [
        ("a", 0, 999, 10),
        ("a", 0, 80, 20),
        ("a", 0, 81, 30),
        ("a", 0, 90, 40),
        ("a", 1, 90, 30),
        ("b", 0, 80, 30),
    ]
    floors = pd.DataFrame(samples, columns=["topic", "partition", "source_end", "sampled_at"])
    assert with_written_before(loss, floors)["written_before"].to_list() == [30, pd.NA, pd.NA]
    assert with_written_before(loss, floors[:0])["written_before"].isna().all()
