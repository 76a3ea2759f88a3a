"""Requests to Airflow while its database is busy, or its answer late."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from urllib3.exceptions import TimeoutError as RequestTimeout

from lab.environment.airflow_api import AirflowClient, RequestRefused
from tests.support.json_server import JsonHandler

BUSY = (500, {"detail": {"reason": "Database error"}})


class _Airflow(ThreadingHTTPServer):
    answers: list[tuple[int, dict]]
    asked: list[str]
    late: list[float]
    late_posts: list[float]


class _Handler(JsonHandler, BaseHTTPRequestHandler):
    server: _Airflow

    def do_POST(self) -> None:
        body = json.loads(self.content())
        self.server.asked.append(body.get("dag_run_id", self.path))
        if self.server.late_posts:
            time.sleep(self.server.late_posts.pop(0))
        status, answer = self.server.answers.pop(0)
        self.answer(status, answer or {"dag_run_id": body.get("dag_run_id")})

    do_PATCH = do_POST

    def do_GET(self) -> None:
        if self.server.late:
            time.sleep(self.server.late.pop(0))
        self.answer(200, {"dag_run_id": self.server.asked[0]})


@pytest.fixture
def airflow() -> Iterator[_Airflow]:
    """An API that gives its answers in order and keeps the ids that it was asked to start."""
    server = _Airflow(("127.0.0.1", 0), _Handler)
    server.asked, server.late, server.late_posts = [], [], []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def _trigger(server: _Airflow, *answers: tuple[int, dict]) -> str:
    server.answers = list(answers)
    return AirflowClient(f"http://127.0.0.1:{server.server_port}", "operator", "secret").trigger("a_dag", {})


def test_a_busy_database_is_asked_again_under_the_same_id(airflow: _Airflow) -> None:
    """One id in every attempt: two attempts that both arrive are one run."""
    run_id = _trigger(airflow, BUSY, BUSY, (200, {}))
    assert airflow.asked == [run_id] * 3


def test_a_run_that_was_started_all_the_same_is_found(airflow: _Airflow) -> None:
    """The answer was an error and the run is there: the next attempt says so."""
    assert _trigger(airflow, BUSY, (409, {"detail": "exists"})) == airflow.asked[0]


def test_a_database_that_stays_away_is_told(airflow: _Airflow) -> None:
    """Three attempts, then the refusal itself."""
    with pytest.raises(RequestRefused, match="Database error"):
        _trigger(airflow, BUSY, BUSY, BUSY)
    assert len(airflow.asked) == 3


def test_a_gates_answer_is_given_again_while_the_database_is_busy(airflow: _Airflow) -> None:
    """As every request is, not only the start of a run."""
    airflow.answers = [BUSY, (200, {"responded_by": None})]
    api = AirflowClient(f"http://127.0.0.1:{airflow.server_port}", "operator", "secret")
    assert api.answer("a_dag", "r1", {"task_id": "approve_plan"}, "Approve", {}) == {"responded_by": None}
    assert len(airflow.asked) == 2


def test_another_refusal_is_told_at_once(airflow: _Airflow) -> None:
    """Bad input is not asked twice."""
    with pytest.raises(RequestRefused) as refused:
        _trigger(airflow, (422, {"detail": "no such param"}))
    assert (refused.value.status, len(airflow.asked)) == (422, 1)


@pytest.mark.parametrize(("late", "seen"), [(2, True), (3, False)])
def test_a_late_answer_is_looked_for_again(
    airflow: _Airflow, monkeypatch: pytest.MonkeyPatch, late: int, seen: bool
) -> None:
    """Who follows a run does not lose it on a busy machine; one that stays silent is told."""
    monkeypatch.setattr("lab.environment.airflow_api.REQUEST_SECONDS", 0.2)
    airflow.asked, airflow.late = ["r1"], [0.6] * late
    api = AirflowClient(f"http://127.0.0.1:{airflow.server_port}", "operator", "secret")
    if seen:
        assert api.run("a_dag", "r1") == {"dag_run_id": "r1"}
    else:
        with pytest.raises(RequestTimeout):
            api.run("a_dag", "r1")


def test_a_late_start_is_asked_for_again_under_the_same_id(airflow: _Airflow, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever became of the first one: two that both arrive are one run."""
    monkeypatch.setattr("lab.environment.airflow_api.WRITE_SECONDS", 0.2)
    airflow.late_posts = [0.6]
    run_id = _trigger(airflow, (409, {"detail": "exists"}), (200, {}))
    assert run_id == airflow.asked[0] and set(airflow.asked) == {run_id} and len(airflow.asked) == 2


def test_a_late_answer_of_a_gate_is_not_repeated(airflow: _Airflow, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who watches the run looks first whether the gate still waits."""
    monkeypatch.setattr("lab.environment.airflow_api.WRITE_SECONDS", 0.2)
    airflow.late_posts, airflow.answers = [0.6], [(200, {})]
    api = AirflowClient(f"http://127.0.0.1:{airflow.server_port}", "operator", "secret")
    with pytest.raises(RequestTimeout):
        api.answer("a_dag", "r1", {"task_id": "approve_plan"}, "Approve", {})
    assert len(airflow.asked) == 1
