"""What the command doctor prints, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kafka_dr.commands import doctor
from kafka_dr.domain.doctor.finding import ExaminedPlace, InstallationFinding

FOUND = InstallationFinding("reach", "primary", "The broker is away", "no answer", "Start the broker.")


def place(*findings: InstallationFinding) -> ExaminedPlace:
    """What one machine has seen."""
    return ExaminedPlace(
        "default", "worker-1", findings, {}, ("reach a", "reach b"), {"spark executors": "because of x"}
    )


def test_nothing_found_is_exit_code_0(capsys: pytest.CaptureFixture[str]) -> None:
    """With how much was looked at, from where, and what was not."""
    assert doctor.report_places([place()], [], as_json=False) == 0
    assert capsys.readouterr().out == (
        "0 findings by 2 checks on worker-1 (queue default), 1 not looked at because of what was found\n"
    )


def test_a_finding_is_printed_with_all_that_a_person_needs(capsys: pytest.CaptureFixture[str]) -> None:
    """Check, reason, what was seen, from where, what to do, and the page."""
    assert doctor.report_places([place(FOUND)], [], as_json=False) == 1
    text = capsys.readouterr().out
    for words in (
        "reach: The broker is away",
        "no answer",
        "worker-1",
        "Start the broker.",
        "runbooks/doctor.md#reach",
    ):
        assert words in text


def test_json_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    """With the places in full."""
    assert doctor.report_places([place(FOUND)], [], as_json=True) == 1
    document = json.loads(capsys.readouterr().out)
    assert not document["healthy"] and document["findings"][0]["page"] == "runbooks/doctor.md#reach"
    assert ExaminedPlace.of(document["places"][0]) == place(FOUND)


def test_what_a_task_returned_is_read_however_the_api_quotes_it() -> None:
    """As text, and as text in text."""
    text = json.dumps(place(FOUND).as_dict())
    for value in (text, json.dumps(text), json.loads(text)):
        assert doctor._place_in(value) == place(FOUND)


def test_without_a_topology_the_file_is_the_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Here nothing else can be looked at; through Airflow nothing at all."""
    monkeypatch.setenv("KAFKA_DR_TOPOLOGY", str(tmp_path / "missing.yaml"))
    assert doctor.main(["--here", "--json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)["findings"]
    assert found["check"] == "topology"
    assert doctor.main([]) == 2
    assert "nothing was examined" in capsys.readouterr().err


def test_an_unknown_check_is_misuse() -> None:
    """Exit code 2."""
    with pytest.raises(SystemExit) as ended:
        doctor.main(["--here", "--skip", "weather"])
    assert ended.value.code == 2
