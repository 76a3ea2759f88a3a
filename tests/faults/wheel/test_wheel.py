"""The wheel on each minor version of Airflow that it states: installed by its lock, DAGs parse, run, ask and refuse."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka_dr.procedures import PROCEDURES

from tests.conftest import ROOT
from tests.faults.wheel.wheel_site import WheelSite, build_wheel, make_environment

MINORS = ("3.1", "3.2", "3.3")
#: A question as every gate asks it, without the steps before that need clusters.
GATE = """
from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import DAG

with DAG("gate", schedule=None):
    HITLOperator(task_id="gate", subject="Approve this plan d1e2", body="figures", options=["Approve", "Reject"])
"""
#: What the product's own client reads of who started the run, and who answered.
READS = """
import json, os
from kafka_dr.hooks.airflow_api import AirflowApi

login = json.loads(os.environ["AIRFLOW_CONN_AIRFLOW_API"])
api = AirflowApi(os.environ["AIRFLOW__API__BASE_URL"], login["login"], login["password"])
run = api.dag_run("gate", "{run_id}")
gate = api.hitl("gate", "{run_id}", "gate")
tries = [one.state for one in api.tries("gate", "{run_id}", "gate")]
answer = [gate.responded_by_name, list(gate.chosen_options), gate.digest]
print(json.dumps([run.triggering_user_name, answer, gate.read_at is not None, tries]))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    return build_wheel(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module", params=MINORS)
def site(request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WheelSite]:
    """Airflow of one minor version, with the wheel and its DAG files."""
    folder = tmp_path_factory.mktemp(f"airflow-{request.param}")
    make_environment(folder / "environment", request.param, wheel)
    made = WheelSite(folder / "environment", folder / "site")
    assert f"\n{request.param}." in f"\n{made.run('airflow', 'version').strip().splitlines()[-1]}"
    made.run("switchback", "install-dags", str(made.dags))
    (made.dags / "gate.py").write_text(GATE)
    try:
        made.start()
        yield made
    finally:
        made.stop()
        shutil.rmtree(folder / "environment", ignore_errors=True)


def state_of(site: WheelSite, dag_id: str, run_id: str, task_id: str) -> str | None:
    """The state of a task."""
    state: str | None = site.get(f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}")["state"]
    return state


def test_dags_parse(site: WheelSite) -> None:
    """All of them, without an import error; and the same files are written again as unchanged."""
    wanted = {path.stem for path in (ROOT / "dags").glob("*.py")}
    site.wait(lambda: wanted <= {dag["dag_id"] for dag in site.get("/dags?limit=100")["dags"]}, "all DAGs")
    assert site.get("/importErrors")["import_errors"] == []
    printed = site.run("switchback", "install-dags", str(site.dags), "--json")
    assert len(json.loads(printed.splitlines()[-1])["unchanged"]) == len(wanted)
    assert set(PROCEDURES) <= wanted


def test_connection_types_have_forms(site: WheelSite) -> None:
    """The API that the page of connections asks names their fields, and which of them are secret."""
    answer = site.session("operator").get(f"{site.url}/ui/connections/hook_meta", timeout=120)
    forms = {form["connection_type"]: form["extra_fields"] for form in answer.json()}
    assert {"switchback_kafka", "switchback_http", "switchback_dns"} <= set(forms)
    assert forms["switchback_kafka"]["sasl.password"]["schema"]["format"] == "password"


def test_a_param_that_is_missing_is_refused_by_airflow(site: WheelSite) -> None:
    """The form's schema is in force."""
    answer = site.trigger("planned_failover", {"source": "primary"})
    assert answer.status_code == 400 and "target" in answer.text


def test_params_that_cannot_be_used_are_refused_with_evidence(site: WheelSite) -> None:
    """The run fails with the reason, and its evidence and page are there."""
    conf = {"source": "nowhere", "target": "standby", "reason": "smoke"}
    run_id = site.trigger("planned_failover", conf).json()["dag_run_id"]
    assert site.ended("planned_failover", run_id) == "failed"
    (path,) = site.evidence.glob("planned_failover-*/evidence.json")
    evidence: dict[str, Any] = json.loads(path.read_text())
    assert evidence["outcome"] == "refused"
    assert "'nowhere' is not a cluster" in json.dumps(evidence["steps"])
    site.run("switchback", "verify-evidence", str(path.parent))
    (path.parent / "evidence.html").write_text("changed")
    site.run("switchback", "verify-evidence", str(path.parent), code=1)


def test_a_run_opens_and_waits_for_clusters_that_do_not_answer(site: WheelSite) -> None:
    """Journal, connections of the new types and deferral work: the next step waits, and is resumed."""
    conf = {"source": "primary", "target": "standby", "reason": "smoke"}
    run_id = site.trigger("planned_failover", conf).json()["dag_run_id"]
    states = [state_of(site, "planned_failover", run_id, "open_procedure")]
    site.wait(lambda: state_of(site, "planned_failover", run_id, "check_readiness") == "deferred", "check_readiness")
    states.append(state_of(site, "planned_failover", run_id, "open_procedure"))
    assert states[-1] == "success"
    plan = site.run("switchback", "plan", "--source", "primary", "--target", "standby", "--json")
    steps = {step["id"]: step["state"] for step in json.loads(plan.splitlines()[-1])["steps"]}
    assert (steps["open_procedure"], steps["check_readiness"]) == ("done", "begun")


def test_a_gate_is_answered_and_read(site: WheelSite) -> None:
    """Who started, who answered, and what was chosen: an act reads all of it from the API before it acts."""
    run_id = site.trigger("gate", {}).json()["dag_run_id"]
    path = f"/dags/gate/dagRuns/{run_id}"
    site.wait(lambda: site.get(f"{path}/hitlDetails")["total_entries"], "the gate")
    answer = {"chosen_options": ["Approve"], "params_input": {}}
    asked = f"{site.url}/api/v2{path}/taskInstances/gate/-1/hitlDetails"
    site.session("approver").patch(asked, json=answer, timeout=60).raise_for_status()
    assert site.ended("gate", run_id) == "success"
    read = json.loads(site.run("python", "-c", READS.replace("{run_id}", run_id)).splitlines()[-1])
    assert read == ["operator", ["approver", ["Approve"], "d1e2"], True, ["success"]]


def test_the_page_is_for_those_who_logged_in(site: WheelSite) -> None:
    """The plugin's page opens with its flows; without a login it does not."""
    page = f"{site.url}/switchback/"
    assert site.session().get(page, timeout=60).status_code == 401
    shown = site.session("viewer").get(page, timeout=120)
    assert shown.status_code == 200 and "primary" in shown.text and "standby" in shown.text


def test_the_jobs_of_the_wheel_are_there_for_spark(site: WheelSite) -> None:
    """A job of the installed package finds its package; the workers get it from the driver."""
    found = site.run("python", "-c", "from kafka_dr.installation import spark_folder; print(spark_folder())")
    job = Path(found.splitlines()[-1]) / "jobs" / "translate_offsets.py"
    assert "--wait-for-input" in site.run("python", str(job), "--help")


def test_every_module_is_imported(site: WheelSite) -> None:
    """No module needs a name that this minor version lacks, nor is one lacked where it is imported late."""
    program = """if True:
        import importlib, pkgutil
        import kafka_dr
        for module in pkgutil.walk_packages(kafka_dr.__path__, "kafka_dr."):
            if ".migrations." not in module.name:  # alembic runs those
                importlib.import_module(module.name)
        import airflow.providers.standard.triggers.external_task
        from airflow.sdk.execution_time.supervisor import ensure_secrets_backend_loaded
        print("imported")
    """
    assert site.run("python", "-c", program).splitlines()[-1] == "imported"


def test_threads_of_a_task_get_their_own_answers(site: WheelSite) -> None:
    """A task's threads read connections at once; Airflow 3.1 itself mixes up what its supervisor answers them."""
    program = """if True:
        import os, socket, sys
        from concurrent.futures import ThreadPoolExecutor
        from threading import Thread, Timer
        import msgspec
        from airflow.sdk.execution_time.comms import (
            CommsDecoder, GetVariable, VariableResult, _RequestFrame, _ResponseFrame,
        )
        from kafka_dr.connections import Connections

        def answer(requests):
            decoder, read = msgspec.msgpack.Decoder(_RequestFrame), requests.makefile("rb")
            while length := read.read(4):
                asked = decoder.decode(read.read(int.from_bytes(length, "big")))
                result = VariableResult(key=asked.body["key"], value="v" * 500)
                requests.sendall(_ResponseFrame(id=asked.id, body=result.model_dump()).as_bytes())

        Connections()._read
        task, supervisor = socket.socketpair()
        Thread(target=answer, args=(supervisor,), daemon=True).start()
        comms, names = CommsDecoder(socket=task), [f"name-{number}" for number in range(2000)]
        Timer(120, lambda: os._exit(3)).start()
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda name: comms.send(GetVariable(key=name)).key, names))
        print("own answers" if answers == names else "mixed", flush=True)
        os._exit(0)
    """
    assert site.run("python", "-c", program).splitlines()[-1] == "own answers"


def test_a_run_by_command_is_refused_while_the_scheduler_runs(site: WheelSite) -> None:
    """Whether the scheduler lives is asked of this minor's own command line."""
    conf = json.dumps({"source": "primary", "target": "standby", "reason": "smoke"})
    printed = site.run("switchback", "run", "planned_failover", "--as", "operator", "--conf", conf, code=2)
    assert "The scheduler of the site's Airflow runs" in printed
