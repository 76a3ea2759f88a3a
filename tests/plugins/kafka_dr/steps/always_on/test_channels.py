"""Notices by Airflow's notifiers to real servers: taken once, and what a server does is told without a secret."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from kafka_dr.commands import send_test_notice
from kafka_dr.config.notifications import NotificationRoute
from kafka_dr.domain.notices.notice import Event, Notice
from kafka_dr.hooks.journal.notices import NoticeState
from kafka_dr.steps.always_on import notifiers
from kafka_dr.steps.always_on.channels import deliver_notice

from tests.support.notices.servers import GOOD, HANGS, HANGS_UP, LATER, REFUSES, free_port, mail_server, webhook_server

TEN = datetime(2026, 11, 22, 10, tzinfo=UTC)
SECRET = "s3cr3t-of-the-server"
GATE = Notice(
    id="p-1/approve_failover/1/gate_opened",
    event=Event.GATE_OPENED,
    flow="east->west",
    at=TEN,
    subject="approve_failover of planned_failover",
    lines=("Move all clients? Plan abc", "password=hunter2 & <b>bold</b>"),
    until=TEN + timedelta(seconds=90),
    dag_id="planned_failover",
    run_id="r 1",
    gate="approve_failover",
)
MAIL = NotificationRoute(kind="smtp", connection="notices_mail", to=("ops@example.org", "dba@example.org"))
WEBHOOK = NotificationRoute(kind="webhook", connection="notices_hook")
SLACK = NotificationRoute(kind="slack", connection="notices_slack", channel="#ops")


def connect(monkeypatch: pytest.MonkeyPatch, name: str, **connection: Any) -> None:
    """Set a connection of Airflow."""
    monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(connection))


@pytest.fixture(autouse=True)
def base_url(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow's address, and short timeouts."""
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example.org/")
    monkeypatch.setattr(notifiers, "TIMEOUT_SECONDS", 0.5)
    monkeypatch.setattr(notifiers._OneTrySmtpHook, "timeout", 0.5)


@pytest.fixture
def mail(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A mail server that asks for a login."""
    with mail_server(("switchback", SECRET)) as (server, port):
        extra = {"from_email": "switchback@example.org", "disable_ssl": True, "disable_tls": True}
        login = {"login": "switchback", "password": SECRET}
        connect(monkeypatch, "notices_mail", conn_type="smtp", host="127.0.0.1", port=port, extra=extra, **login)
        yield server


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A webhook with a secret in its path and a login, and Slack's API beside it."""
    with webhook_server() as (server, url):
        login = {"login": "switchback", "password": SECRET}
        connect(monkeypatch, "notices_hook", conn_type="http", host=f"{url}/services/{SECRET}", **login)
        connect(monkeypatch, "notices_slack", conn_type="slack", password=SECRET, extra={"base_url": f"{url}/api/"})
        yield server


def test_a_mail_says_what_to_do_and_where(mail: Any) -> None:
    """To all recipients, in one mail, without what looks like a secret, and not as HTML of somebody else's."""
    assert deliver_notice(MAIL, GATE, TEN).state is NoticeState.SENT
    (text,) = mail.texts
    assert text.startswith("[warning] east->west: gate opened: approve_failover of planned_failover\n")
    assert "Time left: 90 s" in text and "Move all clients? Plan abc" in text
    assert (
        "https://airflow.example.org/dags/planned_failover/runs/r%201/tasks/approve_failover/required_actions" in text
    )
    assert "hunter2" not in text and "<b>" not in text
    assert mail.envelopes[0].rcpt_tos == ["ops@example.org", "dba@example.org"]


def test_a_webhook_gets_one_document(hook: Any) -> None:
    """As text for chats, and in parts for programs."""
    assert deliver_notice(WEBHOOK, GATE, TEN).state is NoticeState.SENT
    (document,) = hook.documents
    assert (document["event"], document["severity"], document["flow"]) == ("gate_opened", "warning", "east->west")
    assert document["text"].splitlines() == [document["title"], *document["lines"]]
    assert document["id"] == GATE.id and document["until"] == "2026-11-22T10:01:30+00:00"
    assert "hunter2" not in json.dumps(document) and SECRET not in json.dumps(document)


def test_slack_gets_the_text_in_its_channel(hook: Any) -> None:
    """By Slack's API, as Airflow's provider calls it."""
    assert deliver_notice(SLACK, GATE, TEN).state is NoticeState.SENT
    (document,) = hook.documents
    assert document["channel"] == "#ops" and document["text"].startswith("[warning] east->west: gate opened")


@pytest.mark.parametrize(
    ("route", "mood", "state", "told"),
    [
        (MAIL, REFUSES, NoticeState.NOT_SENT, "SMTPDataError (SMTP 554)"),
        (MAIL, LATER, NoticeState.WAITING, "SMTPDataError (SMTP 451)"),
        (MAIL, HANGS, NoticeState.UNKNOWN, "SMTPServerDisconnected"),
        (MAIL, HANGS_UP, NoticeState.UNKNOWN, "SMTPServerDisconnected"),
        (WEBHOOK, REFUSES, NoticeState.NOT_SENT, "the webhook answered 500"),
        (WEBHOOK, LATER, NoticeState.WAITING, "the webhook answered 503"),
        (WEBHOOK, HANGS, NoticeState.UNKNOWN, "ReadTimeout"),
        (WEBHOOK, HANGS_UP, NoticeState.UNKNOWN, "ConnectionError"),
        (SLACK, REFUSES, NoticeState.NOT_SENT, "Slack answered 500"),
        (SLACK, HANGS, NoticeState.UNKNOWN, "TimeoutError"),
        (SLACK, HANGS_UP, NoticeState.UNKNOWN, "RemoteDisconnected"),
    ],
    ids=lambda value: getattr(value, "kind", value),
)
def test_what_a_server_does_is_told_and_it_gets_the_notice_once(
    mail: Any, hook: Any, capfd: pytest.CaptureFixture[str], route: Any, mood: str, state: NoticeState, told: str
) -> None:
    """A server that has taken a notice and does not say so is not sent the notice again; no secret is printed."""
    mail.mood = hook.mood = mood
    delivery = deliver_notice(route, GATE, TEN)
    assert (delivery.state, delivery.detail) == (state, told)
    assert len(mail.mails) + len(hook.documents) == 1
    printed = "".join(capfd.readouterr())
    assert SECRET not in printed and SECRET not in delivery.detail


@pytest.mark.parametrize("route", [MAIL, WEBHOOK, SLACK], ids=lambda route: route.kind)
def test_a_server_that_is_away_got_nothing(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], route: NotificationRoute
) -> None:
    """So the notice waits, and is tried again; the address, whose path is a secret, is not printed."""
    url = f"http://127.0.0.1:{free_port()}/{SECRET}"
    extras = {"smtp": {"from_email": "a@b.c", "disable_ssl": True, "disable_tls": True}, "slack": {"base_url": url}}
    extra = extras.get(route.kind, {})
    host, port = ("127.0.0.1", free_port()) if route.kind == "smtp" else (url, None)
    connect(monkeypatch, route.connection, conn_type=route.kind, host=host, port=port, password=SECRET, extra=extra)
    delivery = deliver_notice(route, GATE, TEN)
    assert delivery.state is NoticeState.WAITING and "before it was sent" in delivery.detail
    assert SECRET not in delivery.detail and SECRET not in "".join(capfd.readouterr())


def test_a_wrong_password_waits_for_a_right_one(mail: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's answer is told by its code, because it may repeat the password."""
    mail.login = ("switchback", "another")
    delivery = deliver_notice(MAIL, GATE, TEN)
    assert delivery.state is NoticeState.WAITING
    assert delivery.detail == "SMTPAuthenticationError (SMTP 535), before it was sent" and mail.mails == []


def test_a_connection_or_a_provider_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The notice waits until somebody has made the connection, or installed the provider."""
    assert deliver_notice(WEBHOOK, GATE, TEN).detail == "Airflow has no usable connection notices_hook"
    monkeypatch.setitem(sys.modules, "airflow.providers.slack.notifications.slack", None)
    delivery = deliver_notice(SLACK, GATE, TEN)
    assert delivery.state is NoticeState.WAITING
    assert delivery.detail == "the provider for slack is missing: install requirements.txt"


@pytest.fixture
def topology(bench: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A topology with a webhook as its second route."""
    document = json.loads(bench.topology.read_text())
    routes = [
        {"kind": "smtp", "connection": "none", "to": ["a@b.c"]},
        {"kind": "webhook", "connection": "notices_hook"},
    ]
    bench.topology.write_text(json.dumps({**document, "notifications": routes}))
    monkeypatch.setenv("KAFKA_DR_TOPOLOGY", str(bench.topology))
    return bench.topology


def test_a_route_is_tried_by_a_command(topology: Path, hook: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """It says what became of the notice, and ends accordingly."""
    assert send_test_notice.main(["--route", "2"]) == 0
    assert hook.events == ["test"] and hook.documents[0]["severity"] == "critical"
    hook.mood = REFUSES
    assert send_test_notice.main(["--route", "2"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "route 2 (webhook by connection notices_hook): sent",
        "route 2 (webhook by connection notices_hook): not sent: the webhook answered 500",
    ]
    hook.mood = GOOD
    assert send_test_notice.main(["--route", "3"]) == 2 and len(hook.documents) == 2
    assert "the topology has 2 routes, and no route 3" in capsys.readouterr().err
