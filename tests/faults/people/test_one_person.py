"""One person with every right of an operator, and none of an approver, tries to approve alone on a real lab.

What stands in test_approvals.py (own answers, forged answers and marks, a changed journal) is not tried again here.
Each attempt ends where it began, so one lab serves them all. What refused each is listed in runbooks/one_person.md.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest
import requests

from lab.environment.airflow_api import AirflowClient, RequestRefused
from lab.environment.airflow_settings import airflow_connections
from lab.rehearsal.run import procedure_id
from tests.faults.support.attacked_run import (
    DAG_ID,
    AttackedLab,
    AttackedRun,
    User,
    awaited,
    free,
    frozen_scheduler,
    nothing_irreversible,
)

pytestmark = pytest.mark.usefixtures("nothing_left")
APPROVAL = {"chosen_options": ["Approve"], "params_input": {}}
PARAMS = {"source": "primary", "target": "standby", "reason": "an attack"}


@pytest.fixture
def operator(lab: AttackedLab) -> User:
    """The person who tries."""
    return User.of(lab, "operator")


# -- requests that Airflow refuses
# ----------------------------------------------------------------------------------------------------------------------


def token(lab: AttackedLab) -> str:
    """Return a token that Airflow issued to the operator."""
    login = {"username": "operator", "password": lab.status()["airflow"]["users"]["operator"]["password"]}
    return str(requests.post(f"{lab.airflow_url}/auth/token", json=login, timeout=30).json()["access_token"])


def forged(own: str, algorithm: str, key: bytes) -> str:
    """Return a token with the approver's name, signed with a guessed key, or not at all."""
    claims = json.loads(base64.urlsafe_b64decode(own.split(".")[1] + "==")) | {"sub": "approver", "role": "admin"}
    parts = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()
        for part in ({"alg": algorithm, "typ": "JWT"}, claims)
    ]
    signed = hmac.new(key, ".".join(parts).encode(), hashlib.sha512).digest()
    signature = base64.urlsafe_b64encode(signed).rstrip(b"=").decode()
    return ".".join([*parts, "" if algorithm == "none" else signature])


def refused_requests(run: AttackedRun) -> dict[str, tuple[str, str, Any, int]]:
    """Return what the operator sends: name -> method, path, body, and the status by which Airflow refuses it."""
    details, task = run.details(), run.task(run.gate)["id"]
    runs, path = f"/api/v2/dags/{DAG_ID}/dagRuns", f"/api/v2{run.path}"
    again = {"dag_run_id": run.run_id, "logical_date": None, "conf": PARAMS}
    dates = {"from_date": "2026-01-01T00:00:00Z", "to_date": "2026-01-02T00:00:00Z"}
    connection = {"connection_id": "airflow_api", "conn_type": "http", "host": "http://127.0.0.1:1"}
    return {
        "answer a task of another map index": ("PATCH", f"/api/v2{details.replace('/-1/', '/0/')}", APPROVAL, 404),
        "answer an earlier try": ("PATCH", f"/api/v2{details}/tries/1", APPROVAL, 405),
        "answer over the pages' own API": ("PATCH", f"/ui{details}", APPROVAL, 405),
        "answer as a task does": ("PATCH", f"/execution/hitlDetails/{task}", {"ti_id": task, **APPROVAL}, 403),
        "read a connection as a task does": ("GET", "/execution/connections/airflow_api", None, 403),
        "trigger as somebody else": ("POST", runs, {"logical_date": None, "triggering_user_name": "approver"}, 422),
        "change who triggered": ("PATCH", path, {"triggering_user_name": "approver"}, 422),
        "change the params": ("PATCH", path, {"conf": {"source": "standby"}}, 422),
        "trigger a second run with the same id": ("POST", runs, again, 409),
        "delete the running run": ("DELETE", path, None, 409),
        "backfill": ("POST", "/api/v2/backfills", {"dag_id": DAG_ID, "dag_run_conf": PARAMS, **dates}, 422),
        "materialize an asset": ("POST", "/api/v2/assets/1/materialize", {}, 404),
        "test a connection": ("POST", "/api/v2/connections/test", connection, 403),
        "test a connection on a worker": ("POST", "/api/v2/connections/enqueue-test", connection, 403),
        "read the configuration": ("GET", "/api/v2/config", None, 403),
        "get a token without a password": ("GET", "/auth/token", None, 403),
        "get a token of Switchback's account": ("POST", "/auth/token", {"username": "switchback", "password": ""}, 400),
        "send something to the live page": ("POST", "/switchback/", {}, 405),
    }


def test_airflow_refuses_these_requests(lab: AttackedLab) -> None:
    """One question, never answered by anybody: after all of them a second person still may reject it."""
    with nothing_irreversible(lab):
        run = AttackedRun.start(lab)
        with pytest.raises(RequestRefused, match="404"):
            run.answer("operator")
        run.asked()
        own = token(lab)
        wrong = {}
        for name, (method, path, body, status) in refused_requests(run).items():
            login = {"Authorization": f"Bearer {own}"}
            found = requests.request(method, f"{lab.airflow_url}{path}", json=body, headers=login, timeout=60)
            if found.status_code != status:
                wrong[name] = (found.status_code, found.text)
        for algorithm, key in (("none", b""), ("HS512", b""), ("HS512", b"secret")):
            login = {"Authorization": f"Bearer {forged(own, algorithm, key)}"}
            path = f"{lab.airflow_url}/api/v2{run.details()}"
            found = requests.patch(path, json=APPROVAL, headers=login, timeout=60)
            if found.status_code != 403:
                wrong[f"token {algorithm} {key!r}"] = (found.status_code, found.text)
        assert not wrong
        run.answered("approver", "Reject")
        evidence = run.ended()
    assert "approver chose Reject" in evidence["reason_for_outcome"] and evidence["approvals"] == []


@pytest.mark.parametrize("header", ["X-Forwarded-User", "Remote-User", "X-Remote-User", "X-Forwarded-Email"])
def test_a_header_gives_nobody_another_name(lab: AttackedLab, header: str) -> None:
    """The token alone says who sends a request."""
    headers = {"Authorization": f"Bearer {token(lab)}", header: "approver"}
    me = requests.get(f"{lab.airflow_url}/ui/auth/me", headers=headers, timeout=30).json()
    assert me == {"id": "operator", "username": "operator"}


# -- requests that Airflow grants
# ----------------------------------------------------------------------------------------------------------------------


def journal_has_no_approval(lab: AttackedLab, evidence: dict[str, Any]) -> None:
    """Nobody approved, and nothing was fenced."""
    assert evidence["approvals"] == [] and evidence["fenced_at"] is None and evidence["cut_off"] == []


def deletes_the_gate(run: AttackedRun) -> None:
    """Delete the gate's task; the scheduler finds the run without a way forward and ends it."""
    requests.delete(
        f"{run.lab.airflow_url}/api/v2{run.path}/taskInstances/{run.gate}",
        headers={"Authorization": f"Bearer {token(run.lab)}"},
        timeout=30,
    ).raise_for_status()


def marks_the_run(run: AttackedRun) -> None:
    """Mark the whole run as successful."""
    run.user("operator").send("PATCH", run.path, {"state": "success"})


def clears_the_run(run: AttackedRun) -> None:
    """Clear every task of the run."""
    run.user("operator").send("POST", f"{run.path}/clear", {"dry_run": False})


def skips_the_gate(run: AttackedRun) -> None:
    """Mark the gate as skipped, and what comes after it as successful."""
    run.mark(run.gate, state="skipped")
    for step in ("fence_producers", "open_target"):
        run.mark(step)


@pytest.mark.parametrize("attempt", [deletes_the_gate, marks_the_run, clears_the_run, skips_the_gate])
def test_changing_tasks_and_runs_approves_nothing(lab: AttackedLab, attempt: Callable[[AttackedRun], None]) -> None:
    """Whatever becomes of the run: the way back is the abort, if the run itself has not taken it."""
    with nothing_irreversible(lab):
        run = AttackedRun.start(lab)
        run.asked()
        asked = run.task(run.gate)["try_number"]
        attempt(run)
        if attempt is clears_the_run:
            run.asked(attempt=asked + 1)
            run.ignored("operator")
            run.answered("approver", "Reject")
        viewer = run.user("viewer")
        awaited(lambda: viewer.run(DAG_ID, run.run_id)["state"] in ("success", "failed"), "end of the run", 120)
        free(lab)
        evidence = run.ended()
    journal_has_no_approval(lab, evidence)


def test_nobody_lets_another_persons_ended_run_begin(lab: AttackedLab, operator: User) -> None:
    """Its starter ended it before it began; cleared by the operator it would have its two people."""
    with nothing_irreversible(lab):
        operator.send("PATCH", f"/dags/{DAG_ID}", {"is_paused": True})
        try:
            run = AttackedRun(lab, User.of(lab, "approver").trigger(DAG_ID, PARAMS))
            User.of(lab, "approver").send("PATCH", run.path, {"state": "failed"})
        finally:
            operator.send("PATCH", f"/dags/{DAG_ID}", {"is_paused": False})
        clears_the_run(run)
        run.until("open_procedure", "failed")
        evidence = run.ended()
    assert "This run begins without its starter" in evidence["reason_for_outcome"]
    journal_has_no_approval(lab, evidence)


def test_a_run_made_again_under_its_id_has_neither_the_answer_nor_other_params(
    lab: AttackedLab, operator: User
) -> None:
    """Approved, deleted and triggered again: the question is asked again, about the plan that was made first."""
    with nothing_irreversible(lab):
        run = AttackedRun.start(lab)
        run.asked()
        with frozen_scheduler(lab):
            run.answer("approver")
            operator.send("PATCH", run.path, {"state": "failed"})
            own = {"Authorization": f"Bearer {token(lab)}"}
            requests.delete(f"{lab.airflow_url}/api/v2{run.path}", headers=own, timeout=30).raise_for_status()
            other = {**PARAMS, "reason": "another", "exclude_groups": {"billing": "another"}}
            body = {"dag_run_id": run.run_id, "logical_date": None, "conf": other}
            operator.send("POST", f"/dags/{DAG_ID}/dagRuns", body)
        run.asked()
        question = operator.send("GET", run.details())
        run.ignored("operator")
        run.answered("approver", "Reject")
        evidence = run.ended()
    assert "Reason: an attack" in question["body"] and not question["response_received"]
    assert evidence["reason"] == "an attack"
    journal_has_no_approval(lab, evidence)


def test_a_run_whose_id_looks_the_same_in_the_journal_acts_for_no_other(lab: AttackedLab, operator: User) -> None:
    """Both have one procedure id; the second may not read or write under it."""
    with nothing_irreversible(lab):
        run = AttackedRun.start(lab)
        run.asked()
        twin = AttackedRun(lab, run.run_id.replace("+", "_"))
        assert procedure_id(DAG_ID, twin.run_id) == run.id
        operator.send(
            "POST", f"/dags/{DAG_ID}/dagRuns", {"dag_run_id": twin.run_id, "logical_date": None, "conf": PARAMS}
        )
        twin.until("open_procedure", "failed")
        run.answered("approver", "Reject")
        evidence = run.ended()
    assert "approver chose Reject" in evidence["reason_for_outcome"]
    journal_has_no_approval(lab, evidence)


def test_switchbacks_own_account_approves_nothing(lab: AttackedLab) -> None:
    """Its password is in the environment of workers alone; who has it nevertheless is told so."""
    login = airflow_connections(lab)["airflow_api"]
    with nothing_irreversible(lab):
        run = AttackedRun.start(lab)
        run.asked()
        own = User(lab.airflow_url, login["login"], login["password"])
        with pytest.raises(RequestRefused, match="403"):
            own.send("PATCH", run.details(), APPROVAL)
        run.answered("approver", "Reject")
        run.ended()


def test_a_connection_in_airflows_database_chooses_no_api_and_no_journal(lab: AttackedLab, operator: User) -> None:
    """What the environment names is used: nobody's server is asked who approved."""
    edited = {
        "airflow_api": {"conn_type": "http", "host": "http://127.0.0.1:1", "login": "switchback", "password": "x"},
        "kafka_dr_journal": {"conn_type": "generic", "extra": json.dumps({"url": "sqlite:////tmp/none/journal.db"})},
        "kafka_standby": {"conn_type": "kafka", "extra": json.dumps({"bootstrap.servers": "127.0.0.1:1"})},
    }
    with nothing_irreversible(lab):
        run = AttackedRun.start(lab)
        run.asked()
        try:
            for name, connection in edited.items():
                operator.send("POST", "/connections", {"connection_id": name, **connection})
            run.ignored("operator")
            run.answered("approver", "Reject")
            evidence = run.ended()
        finally:
            for name in edited:
                own = {"Authorization": f"Bearer {token(lab)}"}
                requests.delete(f"{lab.airflow_url}/api/v2/connections/{name}", headers=own, timeout=30)
    assert "approver chose Reject" in evidence["reason_for_outcome"]
    journal_has_no_approval(lab, evidence)


# -- secrets
# ----------------------------------------------------------------------------------------------------------------------


def shown(lab: AttackedLab, operator: AirflowClient, run: AttackedRun) -> Iterator[tuple[str, str]]:
    """Yield all that the API shows about a run: place -> text."""
    yield "run", json.dumps(operator.run(DAG_ID, run.run_id))
    own = {"Authorization": f"Bearer {token(lab)}"}
    for task in operator.tasks(DAG_ID, run.run_id):
        path = f"{lab.airflow_url}/api/v2{run.path}/taskInstances/{quote(task['task_id'])}"
        yield f"{task['task_id']} task", json.dumps(task)
        for part in (*(f"logs/{tried}" for tried in range(1, task["try_number"] + 1)), "xcomEntries/return_value"):
            yield f"{task['task_id']} {part}", requests.get(f"{path}/{part}", headers=own, timeout=60).text
    for path in ("/api/v2/connections", "/api/v2/variables", "/api/v2/eventLogs?limit=1000", "/switchback/"):
        yield path, requests.get(f"{lab.airflow_url}{path}", headers=own, timeout=60).text


def test_no_page_shows_a_secret(lab: AttackedLab, operator: User) -> None:
    """No password and no key, in logs, XComs, rendered fields, connections and the live page."""
    record = lab.load()
    keys = [file.read_text().splitlines()[1] for file in (lab.recorder_key, lab.journal_key)]
    secrets = {*record.passwords.values(), *record.airflow_secrets.values(), *keys}
    secrets.discard(record.passwords["airflow_operator"])
    run = AttackedRun.start(lab)
    run.answered("approver", "Reject")
    run.ended()
    looked = awaited(lambda: list(shown(lab, operator, run)), "pages", 30)
    assert any("Plan" in text or "forecast" in text for _, text in looked) and len(looked) > 20
    assert [place for place, text in looked if any(secret in text for secret in secrets)] == []
