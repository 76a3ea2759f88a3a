"""What people are told of a returned and a completed failover, and of a watcher that ends: exactly that, once."""

from __future__ import annotations

import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from lab.environment import airflow_settings, topology_file
from lab.environment.bring_up import up
from lab.environment.state import Lab
from lab.environment.take_down import down
from lab.threads import run_beside
from tests.faults.support.attacked_run import TOPIC, AttackedLab, AttackedRun, User, awaited, seed
from tests.support.notices.servers import MailServer, Webhook, mail_server, webhook_server

WATCHER = "watch_old_source"


class Told:
    """A lab whose notices go to a mail server and a webhook, both with a secret."""

    def __init__(self, lab: AttackedLab, mail: MailServer, hook: Webhook, planted: list[str]) -> None:
        self.lab, self.mail, self.hook, self.planted = lab, mail, hook, planted
        self.expected: list[str] = []

    def expects(self, *events: str, seconds: float = 120.0) -> None:
        """Wait until both servers have these events too; fail if they have others, or one twice."""
        self.expected += events
        awaited(lambda: len(self.hook.events) >= len(self.expected) <= len(self.mail.mails), str(events), seconds)
        assert sorted(self.hook.events) == sorted(self.mailed) == sorted(self.expected)

    @property
    def mailed(self) -> list[str]:
        """The event of each mail, by its subject."""
        return [mail["Subject"].split(": ")[1].replace(" ", "_") for mail in self.mail.mails]

    def body(self, event: str) -> str:
        """What the newest mail about an event says."""
        return self.mail.texts[len(self.mailed) - 1 - self.mailed[::-1].index(event)]


def change(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, more: Callable[[dict[str, Any]], None]) -> None:
    """Let a function of the lab return more than it does."""
    real = getattr(module, name)

    def changed(lab: Lab) -> dict[str, Any]:
        found = real(lab)
        more(found)
        return found

    monkeypatch.setattr(module, name, changed)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    """The lab, with routes from its first moment on."""
    lab = AttackedLab(tmp_path_factory.mktemp("lab"))
    password, path = (f"s3cr3t{secrets.token_hex(12)}" for _ in range(2))
    mail_extra = {"from_email": "switchback@example.org", "disable_ssl": True, "disable_tls": True}
    routes = [
        {"kind": "smtp", "connection": "notices_mail", "to": ["ops@example.org"]},
        {"kind": "webhook", "connection": "notices_hook"},
    ]
    with mail_server(("switchback", password)) as (mail, port), webhook_server() as (hook, url):
        server = {"conn_type": "smtp", "host": "127.0.0.1", "port": port, "login": "switchback", "password": password}
        connections = {
            "notices_mail": {**server, "extra": mail_extra},
            "notices_hook": {"conn_type": "http", "host": f"{url}/services/{path}"},
        }
        with pytest.MonkeyPatch.context() as monkeypatch:
            change(monkeypatch, airflow_settings, "airflow_connections", lambda found: found.update(connections))
            change(monkeypatch, topology_file, "topology_settings", lambda found: found.update(notifications=routes))
            try:
                up(lab.root)
                seed(lab)
                yield Told(lab, mail, hook, [password, path])
            finally:
                down(lab.root)


@contextmanager
def stubborn_member(lab: Lab) -> Iterator[None]:
    """Keep a super user's consumer in the group during the block: the group does not get empty."""

    def consume(over: threading.Event) -> None:
        own = {"group.id": "billing", "enable.auto.commit": False, "log_level": 0}
        consumer = Consumer({**lab.client_properties("primary", "admin"), **own})
        consumer.subscribe([TOPIC])
        while not over.is_set():
            consumer.poll(0.5)
        consumer.close()

    with run_beside(consume):
        yield


def test_a_run_that_returns(told: Told) -> None:
    """Its gate, its fence, half of the fence's time, and its end."""
    with stubborn_member(told.lab):
        run = AttackedRun.start(told.lab, max_fence_seconds=90, drain_seconds=300)
        run.asked()
        told.expects("gate_opened")
        run.answered("approver")
        evidence = run.ended(400)
    assert evidence["outcome"] == "returned", evidence["reason_for_outcome"]
    told.expects("fence_on", "fence_half_time", "returned")
    assert f"Move all clients from primary to standby? Plan {evidence['plan_digest'][:12]}" in told.body("gate_opened")
    assert f"{told.lab.airflow_url}/dags/planned_failover/runs/" in told.body("gate_opened")
    assert re.search(r"Time left: \d+ s", told.body("fence_on"))
    assert "planned_failover ended as returned" in told.body("returned")


def test_a_run_that_completes(told: Told) -> None:
    """Nobody answers its gate for more than half of the gate's time."""
    run = AttackedRun.start(told.lab, approval_wait_seconds=60)
    run.asked()
    told.expects("gate_opened", "gate_half_time")
    run.answered("approver")
    evidence = run.ended(400)
    assert evidence["outcome"] == "completed", evidence["reason_for_outcome"]
    told.expects("fence_on", "completed")


def test_a_watcher_that_ends_is_told_by_the_recorder(told: Told) -> None:
    """Its DAG is paused, and its run ended by hand; nothing else is told again meanwhile."""
    operator = User.of(told.lab, "operator")
    operator.send("PATCH", f"/dags/{WATCHER}", {"is_paused": True})
    for run in operator.send("GET", f"/dags/{WATCHER}/dagRuns?state=running")["dag_runs"]:
        operator.send("PATCH", f"/dags/{WATCHER}/dagRuns/{run['dag_run_id']}", {"state": "failed"})
    told.expects("watcher_silent", seconds=240.0)
    time.sleep(10.0)
    told.expects()


def test_no_secret_stands_anywhere(told: Told) -> None:
    """Neither in what was received, nor in logs, evidence or journal; the search finds what is there."""
    received = "\n".join([*told.mail.texts, *(str(document) for document in told.hook.documents)])
    assert "gate opened" in received
    assert not any(secret in received for secret in told.planted)
    files = [path for folder in (told.lab.logs, told.lab.evidence) for path in folder.rglob("*") if path.is_file()]
    files += [Path(told.lab.journal)]
    texts = {path: path.read_bytes() for path in files}
    assert any(b"planned_failover" in text for text in texts.values())
    found = [path for path, text in texts.items() if any(secret.encode() in text for secret in told.planted)]
    assert found == []
