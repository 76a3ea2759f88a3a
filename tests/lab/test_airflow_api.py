"""Starting a run while the lab's database is busy."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import requests

from lab.airflow_api import AirflowApi, Refused

BUSY = (500, {"detail": {"reason": "Database error"}})


class _Airflow(ThreadingHTTPServer):
    answers: list[tuple[int, dict]]
    asked: list[str]
    late: list[float]
    late_posts = 0.0


class _Handler(BaseHTTPRequestHandler):
    server: _Airflow

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(body["dag_run_id"])
        time.sleep(self.server.late_posts)
        status, answer = self.server.answers.pop(0)
        self._answer(status, answer or {"dag_run_id": body["dag_run_id"]})

    def do_GET(self) -> None:
        if self.server.late:
            time.sleep(self.server.late.pop(0))
        self._answer(200, {"dag_run_id": self.server.asked[0]})

    def _answer(self, status: int, answer: dict) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def airflow() -> Iterator[_Airflow]:
    """An API that gives its answers in order and keeps the ids that it was asked to start."""
    server = _Airflow(("127.0.0.1", 0), _Handler)
    server.asked, server.late = [], []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def _trigger(server: _Airflow, *answers: tuple[int, dict]) -> str:
    server.answers = list(answers)
    return AirflowApi(f"http://127.0.0.1:{server.server_port}", "operator", "secret").trigger("a_dag", {})


def test_a_busy_database_is_asked_again_under_the_same_id(airflow: _Airflow) -> None:
    """One id in every attempt: two attempts that both arrive are one run."""
    run_id = _trigger(airflow, BUSY, BUSY, (200, {}))
    assert airflow.asked == [run_id] * 3


def test_a_run_that_was_started_all_the_same_is_found(airflow: _Airflow) -> None:
    """The answer was an error and the run is there: the next attempt says so."""
    assert _trigger(airflow, BUSY, (409, {"detail": "exists"})) == airflow.asked[0]


def test_a_database_that_stays_away_is_told(airflow: _Airflow) -> None:
    """Three attempts, then the refusal itself."""
    with pytest.raises(Refused, match="Database error"):
        _trigger(airflow, BUSY, BUSY, BUSY)
    assert len(airflow.asked) == 3


def test_another_refusal_is_told_at_once(airflow: _Airflow) -> None:
    """Bad input is not asked twice."""
    with pytest.raises(Refused) as refused:
        _trigger(airflow, (422, {"detail": "no such param"}))
    assert (refused.value.status, len(airflow.asked)) == (422, 1)


@pytest.mark.parametrize(("late", "seen"), [(2, True), (3, False)])
def test_a_late_answer_is_looked_for_again(airflow: _Airflow, monkeypatch: pytest.MonkeyPatch, late: int, seen: bool) -> None:
    """Who follows a run does not lose it on a busy machine; one that stays silent is told."""
    monkeypatch.setattr("lab.airflow_api.REQUEST_SECONDS", 0.2)
    airflow.asked, airflow.late = ["r1"], [0.6] * late
    api = AirflowApi(f"http://127.0.0.1:{airflow.server_port}", "operator", "secret")
    if seen:
        assert api.run("a_dag", "r1") == {"dag_run_id": "r1"}
    else:
        with pytest.raises(requests.Timeout):
            api.run("a_dag", "r1")


def test_a_late_start_is_not_repeated(airflow: _Airflow, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody knows what became of it."""
    monkeypatch.setattr("lab.airflow_api.REQUEST_SECONDS", 0.2)
    airflow.late_posts = 0.6
    with pytest.raises(requests.Timeout):
        _trigger(airflow, (200, {}))
    assert len(airflow.asked) == 1
