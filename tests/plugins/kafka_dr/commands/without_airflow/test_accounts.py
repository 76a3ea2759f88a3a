"""A person's calls, against a server that speaks like Airflow's API."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from kafka_dr.commands.without_airflow.accounts import Account
from kafka_dr.errors import BadInput, HookUnavailable, Refusal


class Server:
    """Answers everything with what the test says, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, Any, str | None]] = []
        self.answer: tuple[int, Any] = (200, {"dag_run_id": "r 1"})
        outer = self

        class Handler(BaseHTTPRequestHandler):
            """Logins by password, everything else by what is said."""

            def _any(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"null")
                outer.asked.append((self.command, self.path, body, self.headers.get("Authorization")))
                login = self.path == "/auth/token"
                status, document = (
                    ((201, {"access_token": "t"}) if body["password"] == "right" else (401, {"detail": body}))
                    if login
                    else outer.answer
                )
                raw = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            do_POST = do_PATCH = _any

            def log_message(self, *_: object) -> None:
                """Silent."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"


@pytest.fixture
def server() -> Iterator[Server]:
    """A server for one test."""
    made = Server()
    threading.Thread(target=made.http.serve_forever, daemon=True).start()
    yield made
    made.http.shutdown()
    made.http.server_close()


def test_a_wrong_password_is_refused_and_never_repeated(server: Server) -> None:
    """The answer's body may hold what was sent."""
    with pytest.raises(Refusal, match="refuses the login of 'alice'") as refused:
        Account(server.url, "alice", "hunter2")
    assert "hunter2" not in str(refused.value)


def test_a_run_is_started_with_the_persons_own_token(server: Server) -> None:
    """And under the id that makes it the same procedure."""
    Account(server.url, "alice", "right").trigger("planned_failover", {"a": 1}, "r 1")
    assert server.asked[-1] == (
        "POST",
        "/api/v2/dags/planned_failover/dagRuns",
        {"logical_date": None, "conf": {"a": 1}, "dag_run_id": "r 1"},
        "Bearer t",
    )


@pytest.mark.parametrize(("status", "error"), [(400, BadInput), (403, Refusal), (404, Refusal), (500, HookUnavailable)])
def test_what_airflow_refuses_is_said(server: Server, status: int, error: type[Exception]) -> None:
    """Bad params, missing rights, and a server that fails are three things."""
    account = Account(server.url, "alice", "right")
    server.answer = (status, {"detail": "because"})
    with pytest.raises(error) as refused:
        account.trigger("planned_failover", {}, "r")
    assert "because" in str(refused.value)


def test_an_answer_names_its_gate(server: Server) -> None:
    """Somebody who was faster is no error; somebody who may not answer is told."""
    account = Account(server.url, "bob", "right")
    server.answer = (200, {})
    assert account.answer("d", "r/1", "approve_failover", "Approve") is True
    assert server.asked[-1][:3] == (
        "PATCH",
        "/api/v2/dags/d/dagRuns/r%2F1/taskInstances/approve_failover/-1/hitlDetails",
        {"chosen_options": ["Approve"], "params_input": {}},
    )
    server.answer = (409, {})
    assert account.answer("d", "r", "g", "Approve") is False
    server.answer = (403, {"detail": "not a respondent"})
    with pytest.raises(Refusal, match="does not let bob answer g"):
        account.answer("d", "r", "g", "Approve")


def test_what_of_a_run_runs_again(server: Server) -> None:
    """What failed, or what is named; a task that counts as done, and a DAG that waits, are asked for by name."""
    account = Account(server.url, "alice", "right")
    account.clear_failed("d", "r")
    assert server.asked[-1][2] == {"dry_run": False, "dag_run_id": "r", "only_failed": True, "reset_dag_runs": True}
    account.clear("d", "r", ["a", "b"])
    assert server.asked[-1][2]["task_ids"] == ["a", "b"] and server.asked[-1][2]["only_failed"] is False
    account.mark_done("d", "r", "a")
    assert server.asked[-1][:3] == ("PATCH", "/api/v2/dags/d/dagRuns/r/taskInstances/a", {"new_state": "success"})
    account.pause("d", paused=True)
    assert server.asked[-1][:3] == ("PATCH", "/api/v2/dags/d", {"is_paused": True})
