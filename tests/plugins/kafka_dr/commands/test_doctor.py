"""What the command doctor prints, and its exit codes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kafka_dr.commands import doctor
from kafka_dr.domain.doctor.finding import ExaminedPlace, InstallationFinding
from kafka_dr.hooks.doctor.airflow_examination import AirflowExamination

from tests.support.json_server import JsonHandler, served

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


@contextmanager
def airflow(paused: bool) -> Iterator[tuple[AirflowExamination, list[str]]]:
    """Airflow's API with the DAG, whose runs stay queued; yield its client, and the ids of the started runs."""
    started: list[str] = []

    class Handler(JsonHandler):
        def do_GET(self) -> None:  # noqa: N802
            """Answer what is read."""
            answers = {
                "/api/v2/dags": {"dags": [{"dag_id": "doctor", "is_paused": paused}], "total_entries": 1},
                "/taskInstances": {"task_instances": [], "total_entries": 0},
            }
            path = self.path.partition("?")[0]
            found = [answer for end, answer in answers.items() if path.endswith(end)]
            self.answer(200, found[0] if found else {"state": "queued"})

        def do_POST(self) -> None:  # noqa: N802
            """Issue tokens, and take runs."""
            body = json.loads(self.content())
            if self.path.startswith("/auth"):
                self.answer(201, {"access_token": "t"})
            elif body["conf"]:
                self.answer(422, {"detail": "conf is no object"})
            else:
                started.append(body["dag_run_id"])
                self.answer(200, {"dag_run_id": body["dag_run_id"], "state": "queued"})

    with served(Handler) as url:
        yield AirflowExamination(url, "olga", "password"), started


def test_a_paused_dag_is_not_started(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Its run would stay queued: new DAGs of Airflow are paused unless its configuration says otherwise."""
    with airflow(paused=True) as (api, started):
        monkeypatch.setattr(doctor, "_api_as", lambda _: api)
        assert doctor.main(["--wait", "0"]) == 2 and started == []
    text = capsys.readouterr().err
    assert "The DAG doctor is paused" in text and "airflow dags unpause doctor" in text and "--here" in text


def test_a_run_that_does_not_begin_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With its state, as Airflow's scheduler does not work; no queue is blamed."""
    with airflow(paused=False) as (api, started):
        monkeypatch.setattr(doctor, "_api_as", lambda _: api)
        assert doctor.main(["--wait", "0"]) == 2 and len(started) == 1
    text = capsys.readouterr().err
    assert f"{started[0]} is queued" in text and "scheduler" in text and "SWITCHBACK_QUEUES" not in text
