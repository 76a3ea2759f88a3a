"""Airflow's REST API."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from kafka_dr.errors import HookUnavailable
from kafka_dr.hooks.airflow_api import AirflowApi

GATE = {
    "subject": "Approve?",
    "body": "| a | b |",
    "options": ["Approve", "Reject"],
    "chosen_options": ["Approve"],
    "responded_by_user": {"id": "2", "name": "bob"},
    "responded_at": "2026-11-20T12:56:24.794790Z",
    "params_input": {"ticket": "CHG1"},
    "created_at": "2026-11-20T12:50:00Z",
    "response_received": True,
}


class Airflow:
    """Enough of Airflow: gives tokens, checks them, serves what a test puts in."""

    def __init__(self, server, reply) -> None:
        self.reply, self.paths, self.valid, self.issued = reply, {}, set(), 0
        server.answer = self.answer

    def answer(self, request):
        if request.path == "/auth/token":
            if request.body != {"username": "svc", "password": "hunter2"}:
                return self.reply(401, {"detail": f"Invalid credentials {request.body}"})
            self.issued += 1
            self.valid = {f"token-{self.issued}"}
            return self.reply(201, {"access_token": f"token-{self.issued}"})
        if request.headers.get("Authorization") not in {f"Bearer {token}" for token in self.valid}:
            return self.reply(401, {"detail": "expired"})
        return (
            self.reply(200, self.paths[request.path])
            if request.path in self.paths
            else self.reply(404, {"detail": "not found"})
        )


@pytest.fixture
def airflow(server, reply) -> Airflow:
    """An Airflow that knows user svc."""
    return Airflow(server, reply)


@pytest.fixture
def api(server) -> AirflowApi:
    """The API with the right password."""
    return AirflowApi(server.url, "svc", "hunter2")


def test_a_run_says_who_triggered_it(airflow, api) -> None:
    """State, starter and conf come through; the run id is quoted in the path."""
    airflow.paths["/api/v2/dags/d/dagRuns/manual__2026-11-20T12%3A00%3A00%2B00%3A00"] = {
        "state": "running",
        "triggered_by": "rest_api",
        "triggering_user_name": "alice",
        "conf": {"source": "a"},
    }
    run = api.dag_run("d", "manual__2026-11-20T12:00:00+00:00")
    assert (run.state, run.triggering_user_name, run.conf) == ("running", "alice", {"source": "a"})


@pytest.mark.parametrize(
    ("how", "who"),
    [
        ("rest_api", "alice"),
        ("ui", "alice"),
        *((how, None) for how in ("cli", "test", "operator", "timetable", "asset", "backfill", None)),
    ],
)
def test_only_who_logged_in_is_known_as_the_starter(airflow, api, how, who) -> None:
    """The command line takes its user's name from the environment: that names nobody."""
    airflow.paths["/api/v2/dags/d/dagRuns/r"] = {
        "state": "running",
        "triggered_by": how,
        "triggering_user_name": "alice",
    }
    assert api.dag_run("d", "r").triggering_user_name == who


def test_a_token_that_is_repeated_is_not_shown(airflow, api, server) -> None:
    """An error that repeats the request's headers shows neither token nor password."""
    server.answer = lambda request: (
        airflow.answer(request)
        if request.path == "/auth/token"
        else airflow.reply(403, {"headers": request.headers, "sent": "token-1"})
    )
    with pytest.raises(HookUnavailable) as refused:
        api.dag_run("d", "r")
    assert "403" in str(refused.value) and "token-1" not in str(refused.value)


def test_ids_cannot_leave_their_place_in_the_path(airflow, api, server) -> None:
    """Slashes and dots in an id do not reach another resource."""
    with pytest.raises(HookUnavailable):
        api.dag_run("d", "../../../connections")
    assert server.requests[-1].path == "/api/v2/dags/d/dagRuns/..%2F..%2F..%2Fconnections"


def test_a_gate_says_who_answered_what(airflow, api) -> None:
    """Responder, choice, form and times come through."""
    airflow.paths["/api/v2/dags/d/dagRuns/r/taskInstances/approve/-1/hitlDetails"] = GATE
    gate = api.hitl("d", "r", "approve")
    assert (gate.responded_by_id, gate.responded_by_name, gate.chosen_options) == ("2", "bob", ("Approve",))
    assert gate.responded_at == datetime(2026, 11, 20, 12, 56, 24, 794790, tzinfo=UTC)
    assert gate.params_input == {"ticket": "CHG1"} and gate.options == ("Approve", "Reject")
    assert gate.read_at is not None and abs((gate.read_at - datetime.now(UTC)).total_seconds()) < 60


def test_an_unanswered_or_expired_gate_names_nobody(airflow, api) -> None:
    """Without a responder both names are None, also where defaults were taken at expiry."""
    airflow.paths["/api/v2/dags/d/dagRuns/r/taskInstances/approve/-1/hitlDetails"] = {
        **GATE,
        **dict.fromkeys(("responded_by_user", "chosen_options", "responded_at", "params_input")),
    }
    gate = api.hitl("d", "r", "approve")
    found = (gate.responded_by_id, gate.responded_by_name, gate.chosen_options, gate.responded_at)
    assert found == (None, None, (), None)


def test_a_gate_never_reached_is_none(airflow, api) -> None:
    """A 404 is not an answer of any kind."""
    assert api.hitl("d", "r", "approve") is None


def test_a_task_has_its_tries_in_order(airflow, api) -> None:
    """With state and end; a task that never ran has none."""
    rows = [
        {"task_id": "approve", "state": state, "try_number": n, "end_date": end}
        for n, state, end in ((2, "running", None), (1, "success", "2026-11-20T12:00:00Z"))
    ]
    airflow.paths["/api/v2/dags/d/dagRuns/r/taskInstances/approve/tries"] = {"task_instances": rows, "total_entries": 2}
    first, second = api.tries("d", "r", "approve")
    found = (first.state, first.end_date, second.state)
    assert found == ("success", datetime(2026, 11, 20, 12, 0, tzinfo=UTC), "running")
    assert api.tries("d", "r", "other") == []


def test_the_token_is_kept_and_renewed_once_refused(airflow, api) -> None:
    """One token serves many calls; a refused one is replaced without the caller noticing."""
    airflow.paths["/api/v2/dags/d/dagRuns/r"] = {"state": "success"}
    api.dag_run("d", "r")
    api.dag_run("d", "r")
    assert airflow.issued == 1
    airflow.valid = set()
    assert api.dag_run("d", "r").state == "success"
    assert airflow.issued == 2


def test_a_user_whose_tokens_are_always_refused_gets_an_error(airflow, api, server) -> None:
    """A 401 with a fresh token ends after one renewal."""

    def never_valid(request):
        answer = airflow.answer(request)
        airflow.valid = set()
        return answer

    server.answer = never_valid
    with pytest.raises(HookUnavailable, match="401"):
        api.dag_run("d", "r")
    assert airflow.issued == 2


def test_tasks_come_page_by_page(airflow, api) -> None:
    """All pages are read, in order, with states and times."""
    rows = [
        {"task_id": f"t{i}", "state": "success", "map_index": -1, "try_number": 1, "start_date": "2026-01-01T00:00:00Z"}
        for i in range(130)
    ]
    base = "/api/v2/dags/d/dagRuns/r/taskInstances"
    airflow.paths[f"{base}?limit=100&offset=0"] = {"task_instances": rows[:100], "total_entries": 130}
    airflow.paths[f"{base}?limit=100&offset=100"] = {"task_instances": rows[100:], "total_entries": 130}
    found = api.task_instances("d", "r")
    assert [task.task_id for task in found] == [f"t{i}" for i in range(130)]
    assert found[0].start_date == datetime(2026, 1, 1, tzinfo=UTC) and found[0].end_date is None


def test_a_wrong_password_is_named_without_being_shown(airflow, server) -> None:
    """Neither the given password nor what the server echoes stands in the error or its chain."""
    api = AirflowApi(server.url, "svc", "wrong-secret")
    with pytest.raises(HookUnavailable, match="no token to user.*svc") as refused:
        api.dag_run("d", "r")
    chain = [refused.value, refused.value.__cause__, refused.value.__context__]
    assert not any("wrong-secret" in repr(error) + str(error) for error in chain)
    assert "wrong-secret" not in repr(api)


def test_nobody_there_shows_no_password(server) -> None:
    """A failed connection during login carries no request with the password."""
    url = server.url
    server.close()
    with pytest.raises(HookUnavailable) as failed:
        AirflowApi(url, "svc", "hunter2").dag_run("d", "r", timeout=1)
    assert failed.value.__cause__ is None and failed.value.__context__ is None
    assert "hunter2" not in str(failed.value)


@pytest.mark.parametrize("body", [[], "x", 3])
def test_an_answer_of_another_shape_is_an_error(airflow, api, body) -> None:
    """A list where a run should be is reported."""
    airflow.paths["/api/v2/dags/d/dagRuns/r"] = body
    with pytest.raises(HookUnavailable, match="not the JSON object of a run"):
        api.dag_run("d", "r")


def test_an_unreadable_time_is_an_error(airflow, api) -> None:
    """A gate with a broken time never counts as answered."""
    airflow.paths["/api/v2/dags/d/dagRuns/r/taskInstances/approve/-1/hitlDetails"] = {**GATE, "responded_at": "soon"}
    with pytest.raises(HookUnavailable, match="time"):
        api.hitl("d", "r", "approve")
