"""What the command refuses before it begins, and what it makes of a journal; the command itself runs in
tests/faults.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kafka_dr.commands import run_procedure
from kafka_dr.commands.without_airflow import private_airflow, requested_run
from kafka_dr.commands.without_airflow.airflow_supervisor import end_processes
from kafka_dr.commands.without_airflow.ending import ending_of
from kafka_dr.commands.without_airflow.own_database import own_database_environment
from kafka_dr.commands.without_airflow.task_log import read_failure
from kafka_dr.config.settings import load_topology
from kafka_dr.errors import BadInput
from kafka_dr.hooks.airflow_api import TaskInstance
from kafka_dr.procedure.find import request_of
from kafka_dr.procedures import PROCEDURES
from kafka_dr.vocabulary import Entry, Step


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["planned_failover"], "The procedure or its params are missing"),
        (["--conf", "{}"], "The procedure or its params are missing"),
        (["planned_failover", "--conf", "{"], "no JSON"),
        (["planned_failover", "--conf", "[]"], "no JSON object"),
        (["--resume", "r", "--conf", "{}"], "exclude each other"),
    ],
)
def test_what_cannot_be_begun(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Said before Airflow is even imported."""
    assert run_procedure.main(arguments) == 2
    assert said in capsys.readouterr().err


def test_bad_params_are_refused_before_anything(bench: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Nothing is started for params that no procedure could use, and everything wrong is said at once."""
    conf = json.dumps({"source": "nowhere", "target": "standby", "resaon": "x"})
    assert run_procedure.main(["planned_failover", "--conf", conf]) == 2
    said = capsys.readouterr().err
    assert "nowhere" in said and "resaon" in said and not (tmp_path / "journal.db").exists()


@pytest.mark.parametrize(
    ("dag_id", "value", "said"),
    [
        ("abort_procedure", "why", "'acknowledge_cool_down': this procedure does not take it"),
        ("planned_failover", " ", "state the reason"),
        ("unplanned_failover", True, "string"),
    ],
)
def test_an_acknowledgement_is_refused_before_anything(
    bench: Any, capsys: pytest.CaptureFixture[str], dag_id: str, value: Any, said: str
) -> None:
    """By name where it is not taken, and where it is no reason."""
    conf = json.dumps({"source": "primary", "target": "standby", "reason": "x", "acknowledge_cool_down": value})
    assert run_procedure.main([dag_id, "--conf", conf]) == 2
    told = capsys.readouterr().err
    assert "acknowledge_cool_down" in told and said in told and not (bench.folder / "journal.db").exists()


@pytest.mark.parametrize("dag_id", ["planned_failover", "unplanned_failover"])
def test_an_acknowledgement_comes_back_from_the_journal(bench: Any, dag_id: str) -> None:
    """A procedure made anew had it, and the form of its DAG has it, too."""
    topology = load_topology()
    request = request_of(
        topology,
        dag_id,
        {"source": "primary", "target": "standby", "reason": "r", "acknowledge_cool_down": "the site burns"},
    )
    told = requested_run.params_of(request, topology)
    requested_run.new_run(dag_id, told)
    assert request_of(topology, dag_id, told) == request and told["acknowledge_cool_down"] == "the site burns"


def test_params_come_back_from_the_journal(bench: Any) -> None:
    """A procedure made anew asks for what it was started with, and for nothing else."""
    topology = load_topology()
    given = {
        "source": "primary",
        "target": "standby",
        "reason": "r",
        "max_fence_seconds": 33.0,
        "exclude_groups": {"g": "why"},
        "acknowledge_recreated_topics": True,
    }
    request = request_of(topology, "planned_failover", given)
    told = requested_run.params_of(request, topology)
    assert given.items() <= told.items() and request_of(topology, "planned_failover", told) == request
    assert "stable_seconds" not in told and "choices" not in told and "deadlines" not in told


def test_params_of_an_unplanned_failover_come_back_too(bench: Any) -> None:
    """None that only a planned one takes, for then it could not be made anew."""
    topology = load_topology()
    request = request_of(
        topology,
        "unplanned_failover",
        {"source": "primary", "target": "standby", "reason": "r", "override_source_lost": "its disks fail"},
    )
    told = requested_run.params_of(request, topology)
    requested_run.new_run("unplanned_failover", told)
    assert request_of(topology, "unplanned_failover", told) == request
    assert told["override_source_lost"] == "its disks fail"


def test_deadlines_that_no_param_states_are_todays(bench: Any) -> None:
    """A topology edited while the run was under way does not make it impossible to take over; anything else unknown
    still does.
    """
    offered = PROCEDURES["planned_failover"].params
    conf = {
        "source": "primary",
        "max_fence_seconds": 33.0,
        "stable_seconds": 2.0,
        "approval_valid_seconds": 60.0,
        "resaon": "r",
    }
    left = requested_run.without_unstated_deadlines(offered, conf)
    assert left == {"source": "primary", "max_fence_seconds": 33.0, "resaon": "r"}
    with pytest.raises(BadInput, match="resaon"):
        requested_run.new_run("planned_failover", left)


def test_before_the_opening_every_step_is_looked_at_again(bench: Any) -> None:
    """Steps decide for themselves whether they are done."""
    procedure = bench.stopped()
    procedure.authority.write(Step.APPROVE_FAILOVER, Entry.APPROVAL, {"by": "bob"})
    entries = bench.journal.entries(procedure.id)
    assert requested_run.steps_done_for_good(entries) == requested_run.gates_to_ask(entries) == set()


def test_after_the_opening_only_gates_and_what_follows_run(bench: Any) -> None:
    """Looking for a drained tail where clients already write would find their records."""
    procedure = bench.stopped()
    procedure.authority.write(Step.APPROVE_FAILOVER, Entry.APPROVAL, {"by": "bob"})
    procedure.authority.write(Step.OPEN_TARGET, Entry.INTENT, {"removes_acl_entries": []})
    entries = bench.journal.entries(procedure.id)
    done = requested_run.steps_done_for_good(entries)
    assert {Step.FENCE_PRODUCERS, Step.COMMIT_GROUPS, Step.REVIEW_TRANSLATION} <= done
    assert not {Step.APPROVE_FAILOVER, Step.OPEN_TARGET, Step.REDIRECT_CLIENTS} & done
    assert requested_run.gates_to_ask(entries) == {Step.APPROVE_FAILOVER}


def test_a_begun_run_is_known_by_either_id(bench: Any, tmp_path: Path) -> None:
    """From the journal, or from the folder of the command that left it; anything else is refused."""
    topology, procedure = load_topology(), bench.stopped()
    for name in (procedure.id, procedure.identity.run_id):
        assert requested_run.begun_run(name, bench.journal, topology, tmp_path).procedure_id == procedure.id
    abort = requested_run.new_run("abort_procedure", {"source": "primary", "target": "standby", "reason": "r"})
    folder = tmp_path / abort.procedure_id
    folder.mkdir()
    with pytest.raises(BadInput, match="There is no run"):
        requested_run.begun_run(abort.run_id, bench.journal, topology, tmp_path)
    requested_run.write_run(folder, abort, ["open_target"])
    assert requested_run.begun_run(abort.run_id, bench.journal, topology, tmp_path) == abort
    assert requested_run.read_run(folder) == (abort, ["open_target"]) and abort.started_here


def test_a_private_airflow_shares_nothing_with_the_installed_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Neither database nor executor nor API; connections that it keeps come along, the variables set here win."""
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "CeleryExecutor")
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "postgresql://production")
    monkeypatch.setenv(private_airflow.PROCESS_CONTEXT, "server")
    found = private_airflow._environment(tmp_path, "http://127.0.0.1:4711")
    assert found["AIRFLOW__CORE__EXECUTOR"] == "LocalExecutor" and found["AIRFLOW__API__PORT"] == "4711"
    assert found["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"] == "http://127.0.0.1:4711/execution/"
    assert private_airflow.PROCESS_CONTEXT not in found and "production" not in str(found)


def test_what_a_killed_command_left_is_ended(tmp_path: Path) -> None:
    """Processes that work in the folder, and no others."""
    (tmp_path / "other").mkdir()
    left, other = (subprocess.Popen(["sleep", "60"], cwd=folder) for folder in (tmp_path, tmp_path / "other"))
    try:
        end_processes(tmp_path)
        assert left.poll() is not None and other.poll() is None
    finally:
        other.kill()
        other.wait()


@pytest.mark.parametrize(
    ("dag_id", "outcome", "state", "said", "good"),
    [
        ("planned_failover", "completed", "success", "completed", True),
        ("planned_failover", "completed", "failed", "failed", False),
        ("planned_failover", "returned", "failed", "returned", False),
        ("abort_procedure", "aborted", "success", "aborted", True),
        ("abort_procedure", "completed", "failed", "completed", False),
        ("planned_failover", None, "failed", "failed", False),
        ("planned_failover", None, "success", "completed", True),
    ],
)
def test_how_it_ended(bench: Any, dag_id: str, outcome: str | None, state: str, said: str, good: bool) -> None:
    """By the evidence; by the tasks where there is none. A green run is never claimed for a red one."""
    topology = load_topology()
    if outcome:
        folder = Path(topology.evidence) / "p"
        folder.mkdir(parents=True)
        (folder / "evidence.json").write_text(
            json.dumps({"outcome": outcome, "failing_step": "forecast", "reason_for_outcome": "a\nb"})
        )
    tasks = [SimpleNamespace(task_id="forecast", state="failed")]
    ending = ending_of(topology, "p", dag_id, state, tasks, lambda task: f"the log of {task.task_id}")
    assert (ending.outcome, ending.good) == (said, good) and "\n" not in ending.reason
    assert (ending.reason == "the log of forecast") is (outcome is None and not good)


def test_a_reason_is_read_from_the_newest_trys_log(tmp_path: Path) -> None:
    """Of lines in Airflow's form; what is cut off, or has another form, hides none."""
    task = TaskInstance("open_procedure", "failed", -1, 2, None, None)
    folder = tmp_path / "dag_id=d/run_id=manual__2026-11-29T12:00:00+00:00/task_id=open_procedure"
    assert read_failure(tmp_path, "d", "manual__2026-11-29T12:00:00+00:00", task) == ""
    folder.mkdir(parents=True)
    lines = [
        {"event": "started"},
        {"error_detail": [{"exc_value": "an earlier error"}]},
        {"error_detail": [{"exc_value": "The journal lost\nentries"}, {"exc_value": "its cause", "is_cause": True}]},
        {"error_detail": None},
    ]
    (folder / "attempt=1.log").write_text(json.dumps({"error_detail": [{"exc_value": "an earlier try"}]}))
    (folder / "attempt=2.log").write_text("\n".join(map(json.dumps, lines)) + '\n{"error_detail": [{"exc_va')
    found = read_failure(tmp_path, "d", "manual__2026-11-29T12:00:00+00:00", task)
    assert found.startswith("The journal lost") and found.endswith("entries") and "\n" not in found


def test_a_folder_becomes_airflows_home(tmp_path: Path) -> None:
    """A database, users and connections; secrets only in files of our own."""
    for name, text in {
        "users.json": {"alice": "a", "bob": "b"},
        "connections/k.json": {"kafka_east": {"conn_type": "kafka"}},
    }.items():
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(text))
        file.chmod(0o600)
    found = own_database_environment(tmp_path)
    assert found["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] == f"sqlite:///{tmp_path}/airflow.db"
    assert found["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS"] == "alice:op,bob:op"
    assert json.loads(found["AIRFLOW_CONN_KAFKA_EAST"]) == {"conn_type": "kafka"}


@pytest.mark.parametrize(
    ("text", "mode", "said"),
    [
        ('{"a": "b"}', 0o644, "other users may read the file"),
        ("[]", 0o600, "no JSON object"),
        ("{", 0o600, "no JSON object"),
    ],
)
def test_secrets_that_others_may_read_are_refused(tmp_path: Path, text: str, mode: int, said: str) -> None:
    """And so is what is no list of users."""
    file = tmp_path / "users.json"
    file.write_text(text)
    file.chmod(mode)
    with pytest.raises(BadInput, match="users.json") as refused:
        own_database_environment(tmp_path)
    assert said in str(refused.value)
