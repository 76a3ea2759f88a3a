"""Airflow's official client under our transport: other versions' answers, redirects, proxies, and what it costs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from airflow_client.client import ClearTaskInstancesBody, HITLDetail, TriggerDAGRunPostBody
from kafka_dr.errors import HookUnavailable
from kafka_dr.hooks.airflow_api import AirflowApi
from kafka_dr.hooks.airflow_calls import AirflowCalls, only_given
from pydantic import ValidationError

GATE_PATH = "/api/v2/dags/d/dagRuns/r/taskInstances/approve/-1/hitlDetails"
TASKS_PATH = "/api/v2/dags/d/dagRuns/r/taskInstances?limit=100&offset=0"
TASK = {
    **dict.fromkeys(("dag_version", "duration", "end_date", "executor", "logical_date", "note", "start_date")),
    **dict.fromkeys(("dag_display_name", "dag_id", "task_display_name", "pool", "executor_config"), "d"),
    **dict.fromkeys(("max_tries", "pool_slots", "try_number"), 1),
    "task_id": "approve",
    "dag_run_id": "r",
    "map_index": -1,
    "run_after": "2026-11-20T12:00:00Z",
    "id": "019a6f35-3c1c-7c5e-8a5e-6d6ac0f3d3d4",
    "state": "running",
}
GATE = {
    "subject": "Approve? abc",
    "options": ["Approve"],
    "chosen_options": ["Approve"],
    "task_instance": TASK,
    "created_at": "2026-11-20T12:50:00Z",
    "responded_at": "2026-11-20T12:56:24Z",
    "params_input": {},
    "responded_by_user": {"id": "2", "name": "bob"},
}


@pytest.fixture
def api(server, reply) -> AirflowApi:
    """An API whose server gives a token and then what `server.queue` holds."""
    server.queue = [reply(201, {"access_token": "token-1"})]
    return AirflowApi(server.url, "svc", "hunter2")


@pytest.mark.parametrize(
    "gate",
    [
        pytest.param(
            GATE | {"task_instance": TASK | {"state": "parked_by_a_later_airflow"}}, id="a state it knows not"
        ),
        pytest.param(GATE | {"task_instance": {"task_id": "approve"}}, id="fields that an earlier Airflow had not"),
    ],
)
def test_a_gate_of_another_airflow_is_read(api, server, reply, gate) -> None:
    """The official client's own model refuses it: an approval would not be found in the middle of a failover."""
    with pytest.raises(ValidationError):
        HITLDetail.from_dict(gate)
    assert HITLDetail.from_dict(GATE) is not None
    server.queue.append(reply(200, gate))
    assert api.hitl("d", "r", "approve").responded_by_name == "bob"
    assert server.requests[-1].path == GATE_PATH


def test_a_run_and_tasks_of_another_airflow_are_read(api, server, reply) -> None:
    """Words and fields that this client does not know stay what they are."""
    run = {"state": "suspended", "run_type": "by_a_webhook", "triggered_by": "webhook", "triggering_user_name": "eve"}
    server.queue += [reply(200, run), reply(200, {"task_instances": [{"task_id": "a", "state": "x"}]})]
    found = api.dag_run("d", "r")
    assert (found.state, found.triggering_user_name) == ("suspended", None)
    assert [(task.task_id, task.state) for task in api.task_instances("d", "r")] == [("a", "x")]
    assert server.requests[-1].path == TASKS_PATH


def test_a_body_holds_what_was_given(server, reply) -> None:
    """Airflow 3.1 answers 422 to `prevent_running_task`, which the client of 3.3 adds by itself."""
    body = ClearTaskInstancesBody(dry_run=False, dag_run_id="r")
    assert "prevent_running_task" in body.to_dict()
    calls = AirflowCalls(server.url, "Airflow's API", ("svc", "hunter2"))
    server.queue = [reply(201, {"access_token": "token-1"}), reply(200, {})]
    calls.send(calls.tasks.post_clear_task_instances_without_preload_content, "d", only_given(body), timeout=5)
    assert server.requests[-1].body == {"dry_run": False, "dag_run_id": "r"}
    assert server.requests[-1].headers["Authorization"] == "Bearer token-1"


def test_params_of_a_run_that_are_null_stay_null(server, reply) -> None:
    """A param that is left out would take the DAG's default instead."""
    conf = {"groups": None, "nested": [{"a": None}]}
    calls = AirflowCalls(server.url, "Airflow's API", ("svc", "hunter2"))
    server.queue = [reply(201, {"access_token": "token-1"}), reply(200, {})]
    body = only_given(TriggerDAGRunPostBody(logical_date=None, conf=conf))
    calls.send(calls.runs.trigger_dag_run_without_preload_content, "d", body, timeout=5)
    assert server.requests[-1].body == {"logical_date": None, "conf": conf}


def test_a_redirect_is_not_followed(api, server, reply) -> None:
    """The official client would follow it, to any host."""
    server.queue.append(reply(302, None, {"Location": f"{server.url}/elsewhere"}))
    with pytest.raises(HookUnavailable, match="redirect"):
        api.dag_run("d", "r")
    assert server.requests[-1].path == "/api/v2/dags/d/dagRuns/r"


def test_the_environments_proxy_gets_nothing(monkeypatch, server, reply) -> None:
    """The official client would send token and password there."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "socks5://127.0.0.1:1")
    server.queue = [reply(201, {"access_token": "token-1"}), reply(200, {"state": "running"})]
    assert AirflowApi(server.url, "svc", "hunter2").dag_run("d", "r").state == "running"


def test_an_answer_that_trickles_in_ends_in_time(api, server, reply) -> None:
    """The official client's timeout counts anew from byte to byte."""
    server.queue.append(reply(200, {"state": "running"}, drip=0.2))
    with pytest.raises(HookUnavailable, match="did not end in time"):
        api.dag_run("d", "r", timeout=0.5)


def test_a_write_without_an_answer_may_have_taken_effect(server, reply) -> None:
    """And it is not sent again."""
    calls = AirflowCalls(server.url, "Airflow's API", ("svc", "hunter2"))
    server.queue = [reply(201, {"access_token": "token-1"}), reply(200, {}, seconds=1.0)]
    call = calls.tasks.post_clear_task_instances_without_preload_content
    answer = calls.send(call, "d", only_given(ClearTaskInstancesBody(dag_run_id="r")), timeout=0.3).answer
    assert (answer.status, answer.timed_out, len(server.sent("POST"))) == (0, True, 2)


@pytest.mark.parametrize(
    ("code", "imported"),
    [
        ("import kafka_dr.steps.planned.open_target", "False"),
        ("from airflow import plugins_manager; plugins_manager._get_plugins()", "True"),
    ],
    ids=["a DAG file", "the plugin"],
)
def test_the_client_is_imported_once_in_the_scheduler(code, imported) -> None:
    """The import takes a second: no DAG file pays it, and tasks are forked from the scheduler, which has paid."""
    code = f"import sys\n{code}\nprint('airflow_client.client' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.strip().splitlines()[-1:] == [imported], done.stderr[-2000:]
