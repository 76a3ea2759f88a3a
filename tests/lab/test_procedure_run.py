"""What `run` says of a run that has ended."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.environment.state import Lab
from lab.rehearsal.run import _result, procedure_id, proposed_values

RUN = ("planned_failover", "manual__2026-11-21T02:31:30.696158+00:00")


def _evidence(lab: Lab, **fields: object) -> None:
    folder = lab.evidence / procedure_id(*RUN)
    folder.mkdir(parents=True)
    (folder / "evidence.json").write_text(json.dumps(fields))


def test_procedure_id_holds_only_plain_characters() -> None:
    """Every character that a path or a topic could mind becomes an underscore."""
    assert procedure_id(*RUN) == "planned_failover-manual__2026-11-21T02_31_30.696158_00_00"
    assert procedure_id("a", "../b c") == "a-.._b_c"


def test_the_form_is_answered_with_its_defaults() -> None:
    """Bare values and params with a value are both understood, None and False included."""
    found = proposed_values({"a": 3, "b": {"value": False, "schema": {}}, "c": {"value": None}})
    assert found == {"a": 3, "b": False, "c": None}


def test_the_failing_step_comes_from_the_evidence(tmp_path: Path) -> None:
    """Outcome, first failed step and reason are the evidence's."""
    steps = [
        {"id": "forecast", "state": "success"},
        {"id": "fence_producers", "state": "failed"},
        {"id": "later", "state": "failed"},
    ]
    _evidence(Lab(tmp_path), outcome="returned", steps=steps, reason_for_outcome="partition still moves")
    assert _result(Lab(tmp_path), *RUN, "failed", "x") == ("returned", "fence_producers", "partition still moves")


def test_completed_needs_a_green_run_too(tmp_path: Path) -> None:
    """Evidence that says completed does not hide a failed run."""
    _evidence(Lab(tmp_path), outcome="completed", steps=[])
    assert _result(Lab(tmp_path), *RUN, "success", "")[0] == "completed"
    assert _result(Lab(tmp_path), *RUN, "failed", "")[0] == "failed"


@pytest.mark.parametrize(("state", "outcome"), [("success", "completed"), ("failed", "failed"), ("timeout", "failed")])
def test_without_evidence_the_run_decides(tmp_path: Path, state: str, outcome: str) -> None:
    """A DAG that leaves no evidence is completed only if its run succeeded."""
    assert _result(Lab(tmp_path), *RUN, state, "")[0] == outcome
