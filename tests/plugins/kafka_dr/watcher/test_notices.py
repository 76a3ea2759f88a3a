"""Sending what is due: once on each route, whoever looks, whatever dies, and whatever a server does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from kafka_dr.config.notifications import NotificationRoute
from kafka_dr.config.settings import load_topology
from kafka_dr.config.topology import Topology
from kafka_dr.domain.notices.notice import Notice
from kafka_dr.domain.notices.service_notices import RECORDER, WATCHER
from kafka_dr.domain.readiness.report import FORM
from kafka_dr.domain.readiness.signs import recorder_findings
from kafka_dr.errors import BadInput
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.hooks.journal.notices import NoticeState
from kafka_dr.procedure.binding import topology_digest
from kafka_dr.steps.always_on import notifiers
from kafka_dr.steps.always_on.channels import deliver_notice
from kafka_dr.vocabulary import Entry, Step
from kafka_dr.watcher import notices as sending
from kafka_dr.watcher.notices import Delivery, NoticeSender, watch_notices
from kafka_dr.watcher.watcher import Watcher

from tests.support.facts import NO_FILE, whole
from tests.support.notices.servers import GOOD, HANGS, HANGS_UP, LATER, REFUSES, mail_server, webhook_server

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
ROOT = Path(__file__).parents[4]
HOOK = {"kind": "webhook", "connection": "notices_hook"}
MAIL = {"kind": "smtp", "connection": "notices_mail", "to": ["ops@example.org"]}


class Site:
    """A journal by a clock of the test's own, a topology with routes, and what was told to people."""

    def __init__(self, bench: Any) -> None:
        self.bench, self.now, self.lines = bench, NOON, []
        self.journal = Journal(bench.url, clock=lambda: self.now)
        self.evidence = Path(json.loads(bench.topology.read_text())["evidence"])
        self.routes(HOOK)

    def routes(self, *routes: dict[str, Any]) -> Topology:
        """State the topology's routes."""
        document = json.loads(self.bench.topology.read_text())
        self.bench.topology.write_text(json.dumps({**document, "notifications": routes}))
        return self.topology

    @property
    def topology(self) -> Topology:
        """The topology, as the file states it now."""
        return load_topology(self.bench.topology)

    def sender(self, send: Callable[..., Delivery] = deliver_notice, **options: Any) -> NoticeSender:
        """Return a sender that knows nothing yet, for which the routes begin now at the latest."""
        sender = NoticeSender(self.lines.append, send, **options)
        self.look(sender)
        return sender

    def look(self, sender: NoticeSender, seconds: float = 1.0) -> None:
        """Let some time pass, look, and wait until all is sent; recorder and watcher live."""
        self.now += timedelta(seconds=seconds)
        self.journal.show_life(WATCHER)
        sender.look(self.journal, self.topology)
        sender.wait()

    def says(self, step: str, kind: str, about: str = "p-1", **payload: Any) -> None:
        """Write one entry of a procedure."""
        self.now += timedelta(seconds=1)
        self.journal.append(about, step, kind, 0, whole(step, Entry(kind), payload, NO_FILE))

    def opened(self, about: str = "p-1", source: str = "primary", target: str = "standby") -> None:
        """Open a run whose fence may last ten minutes."""
        run = {"dag_id": "planned_failover", "run_id": "r1", "source": source, "target": target, "reason": "why"}
        request = {"deadlines": {"max_fence_seconds": 600.0}}
        self.says(Step.OPEN_PROCEDURE, Entry.OPENED, about, **run, request=request)

    def closed(self, outcome: str = "completed", about: str = "p-1") -> None:
        """End a run."""
        end = {"outcome": outcome, "failing_step": None, "reason_for_outcome": "because"}
        self.says(Step.CLOSE_PROCEDURE, Entry.CLOSED, about, **end)

    def states(self) -> dict[str, str]:
        """Return event -> what became of it on the webhook."""
        ids = [f"p-1/1/{event}" for event in ("completed", "failed", "returned")]
        return {record.notice.rpartition("/")[2]: record.state.value for record in self.journal.notices(ids)}


@pytest.fixture
def site(bench: Any, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A site whose webhook route begins at noon."""
    monkeypatch.setattr(notifiers, "TIMEOUT_SECONDS", 0.5)
    return Site(bench)


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A webhook of the route's connection."""
    with webhook_server() as (server, url):
        monkeypatch.setenv("AIRFLOW_CONN_NOTICES_HOOK", json.dumps({"conn_type": "http", "host": url}))
        yield server


@pytest.fixture
def mail(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A mail server of the route's connection."""
    with mail_server() as (server, port):
        extra = {"from_email": "a@b.c", "disable_ssl": True, "disable_tls": True}
        connection = {"conn_type": "smtp", "host": "127.0.0.1", "port": port, "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_NOTICES_MAIL", json.dumps(connection))
        yield server


def test_a_whole_run_is_told_event_by_event(site: Site, hook: Any, mail: Any) -> None:
    """Each event once on each route, although each look finds all of them, and although a second sender looks."""
    site.routes(HOOK, MAIL)
    one, two = site.sender(), site.sender()

    def both() -> None:
        site.look(one)
        site.look(two)
        site.look(one)

    site.opened()
    site.says(Step.APPROVE_FAILOVER, Entry.INTENT, asks="Move?", digest="d" * 64, wait_seconds=100.0)
    both()
    site.look(one, 60)
    site.says(Step.APPROVE_FAILOVER, Entry.OUTCOME, asked=True)
    site.says(Step.FENCE_PRODUCERS, Entry.INTENT, **{"try": 1})
    site.says(Step.FENCE_PRODUCERS, Entry.OUTCOME)
    both()
    site.look(two, 300)
    site.says(Step.OPEN_TARGET, Entry.INTENT)
    site.closed()
    both()
    expected = ["gate_opened", "gate_half_time", "fence_on", "fence_half_time", "completed"]
    assert hook.events == expected
    assert [text.splitlines()[0].split(": ")[1].replace(" ", "_") for text in mail.texts] == expected
    assert site.lines == []


def test_routes_take_what_they_name(site: Site, hook: Any, mail: Any) -> None:
    """By flow and by severity; a notice of all flows goes to all."""
    site.routes({**HOOK, "flows": ["standby->primary"]}, {**MAIL, "least_severity": "critical"})
    sender = site.sender()
    site.opened()
    site.closed("completed")
    site.opened("p-2", "standby", "primary")
    site.closed("failed", "p-2")
    site.opened("p-3")
    site.closed("failed", "p-3")
    site.look(sender)
    assert [(document["event"], document["flow"]) for document in hook.documents] == [("failed", "standby->primary")]
    flows = [text.split(": ")[0] for text in mail.texts]
    assert flows == ["[critical] standby->primary", "[critical] primary->standby"]


def test_two_routes_to_the_same_people_are_one(site: Site, hook: Any) -> None:
    """Somebody who is named for one flow, and for all critical events, gets a failure once."""
    site.routes({**HOOK, "flows": ["primary->standby"]}, {**HOOK, "least_severity": "critical"})
    sender = site.sender()
    site.opened()
    site.closed("failed")
    site.look(sender)
    assert hook.events == ["failed"]


def test_nobody_is_told_of_what_was_before_the_route(site: Site, hook: Any) -> None:
    """A route that is added begins with the next event; so does a watcher that is started for the first time."""
    site.opened()
    site.closed()
    sender = site.sender()
    assert hook.events == []
    site.opened("p-2")
    site.closed("failed", "p-2")
    site.look(sender)
    assert hook.events == ["failed"]


def test_what_happened_while_no_watcher_ran_is_told_later(site: Site, hook: Any) -> None:
    """Up to a day; a gate that was answered meanwhile is not told."""
    site.sender()
    site.opened()
    site.says(Step.APPROVE_FAILOVER, Entry.INTENT, asks="Move?", digest="d" * 64, wait_seconds=1000.0)
    site.says(Step.APPROVE_FAILOVER, Entry.OUTCOME, asked=True)
    site.closed()
    site.now += timedelta(hours=20)
    site.sender()
    assert hook.events == ["completed"]
    site.opened("p-2")
    site.closed("failed", "p-2")
    site.now += timedelta(hours=25)
    site.sender()
    assert hook.events == ["completed"]


def test_a_server_that_refuses_is_named_and_not_asked_again(site: Site, hook: Any) -> None:
    """It has received the notice, whatever it made of it."""
    sender = site.sender()
    hook.mood = REFUSES
    site.opened()
    site.closed()
    site.look(sender)
    hook.mood = GOOD
    site.look(sender, 600)
    assert hook.events == ["completed"] and site.states() == {"completed": "not sent"}
    (line,) = site.lines
    assert line.startswith("notice p-1/1/completed: refused by the server, and not sent again (webhook by connection")
    assert line.endswith("the webhook answered 500")


def test_a_server_that_is_away_is_tried_again_after_longer_and_longer_pauses(site: Site, hook: Any) -> None:
    """Until it takes the notice; then never again."""
    sender = site.sender()
    hook.mood = LATER
    site.opened()
    site.closed()
    for seconds in (1, 5, 5, 10, 11):
        site.look(sender, seconds)
    assert hook.events == ["completed"] * 3 and site.states() == {"completed": "waiting"}
    hook.mood = GOOD
    site.look(sender, 41)
    site.look(sender, 600)
    assert hook.events == ["completed"] * 4 and site.states() == {"completed": "sent"}


def test_a_server_that_hangs_delays_neither_looks_nor_other_routes(site: Site, hook: Any, mail: Any) -> None:
    """A look does not wait for it; its notice is named as unknown, and not sent again."""
    site.routes(HOOK, MAIL)
    sender = site.sender(send_seconds=1.0)
    hook.mood = HANGS
    site.opened()
    site.closed()
    site.now += timedelta(seconds=1)
    sender.look(site.journal, site.topology)
    assert not sender._jobs["webhook notices_hook " + "e3b0c44298fc"].done()
    sender.wait()
    assert hook.events == ["completed"] and len(mail.mails) == 1
    site.look(sender, 600)
    assert hook.events == ["completed"] and len(site.lines) == 1 and "is unknown" in site.lines[0]


def test_a_round_of_the_watcher_is_as_fast_beside_a_server_that_hangs(
    site: Site, hook: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The median of rounds with a hanging server is that of rounds without; and the server was really asked."""
    monkeypatch.setenv("KAFKA_DR_TOPOLOGY", str(site.bench.topology))
    watcher = Watcher(str, lambda: site.bench.connections)
    watcher.look()

    def median_round() -> float:
        took = []
        for _ in range(15):
            began = time.monotonic()
            watcher.look()
            took.append(time.monotonic() - began)
        return sorted(took)[7]

    before = median_round()
    sender = site.sender(send_seconds=60.0)
    monkeypatch.setattr(notifiers, "TIMEOUT_SECONDS", 60.0)
    hook.mood = HANGS
    site.opened()
    site.closed()
    site.now += timedelta(seconds=1)
    sender.look(site.journal, site.topology)
    while not hook.documents:
        time.sleep(0.01)
    assert median_round() < 3 * before + 0.05
    hook.done.set()
    sender.wait()


_KILLED = """
import os, signal, sys
from kafka_dr.config.settings import load_topology
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.steps.always_on.channels import deliver_notice
from kafka_dr.watcher.notices import NoticeSender

def killed(route, notice, now):
    if sys.argv[2] == "sent":
        deliver_notice(route, notice, now)
    os.kill(os.getpid(), signal.SIGKILL)

sender = NoticeSender(print, killed)
sender.look(Journal(sys.argv[1]), load_topology(sys.argv[3]))
sender.wait()
"""


@pytest.mark.parametrize(("moment", "received"), [("claimed", 0), ("sent", 1)])
def test_a_watcher_that_is_killed_between_claim_and_outcome(site: Site, hook: Any, moment: str, received: int) -> None:
    """Whether it had sent the notice is unknown to the next one, which names it and does not send it again."""
    site.sender()
    site.now = datetime.now(UTC)
    site.opened()
    site.closed()
    site.journal.show_life(WATCHER)
    command = [sys.executable, "-c", _KILLED, site.bench.url, moment, str(site.bench.topology)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "plugins")}
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT, env=environment)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert len(hook.documents) == received and site.states() == {"completed": "claimed"}
    sender = site.sender()
    assert site.lines == []
    site.look(sender, 120)
    site.look(sender, 600)
    assert len(hook.documents) == received and site.states() == {"completed": "unknown"}
    assert len(site.lines) == 1
    assert "notice p-1/1/completed: whether it was sent is unknown, and it is not sent again" in site.lines[0]
    assert "its process ended" in site.lines[0]


def test_a_defect_of_a_notifier_ends_nothing(site: Site) -> None:
    """Its notice is named by the kind of the error alone, whose text may hold a secret."""

    def broken(route: NotificationRoute, notice: Notice, now: datetime) -> Delivery:
        raise RuntimeError("password hunter2")

    sender = site.sender(broken)
    site.opened()
    site.closed()
    site.look(sender)
    assert site.lines[0].endswith("(webhook by connection notices_hook): RuntimeError")


def test_a_silent_watcher_is_told_by_another_sender(site: Site, hook: Any) -> None:
    """Once, until it lives and is silent again."""
    sender = site.sender()
    for seconds in (30, 31, 60):
        site.now += timedelta(seconds=seconds)
        sender.look(site.journal, site.topology)
        sender.wait()
    assert hook.events == ["watcher_silent"]
    site.look(sender)
    site.now += timedelta(seconds=61)
    sender.look(site.journal, site.topology)
    sender.wait()
    assert hook.events == ["watcher_silent", "watcher_silent"]


def test_a_silent_recorder_is_told_by_flow_where_it_signs(site: Site, hook: Any) -> None:
    """Without a key only its process is seen."""
    document = json.loads(site.bench.topology.read_text())

    def recorder(*keys: str) -> None:
        settings = {"archive": "file:///tmp/archive", "public_keys": keys}
        site.bench.topology.write_text(json.dumps({**document, "recorder": settings}))

    recorder()
    sender = site.sender()
    site.journal.show_life(RECORDER)
    site.look(sender, 89)
    assert hook.events == []
    site.look(sender, 2)
    assert [(sent["event"], sent["flow"]) for sent in hook.documents] == [("recorder_silent", "")]
    recorder("A" * 43 + "=")
    site.journal.show_life("recorder primary->standby")
    site.look(sender)
    assert [sent["flow"] for sent in hook.documents[1:]] == ["standby->primary"]


@pytest.mark.parametrize("interval", [1, 60])
@pytest.mark.parametrize("keys", [(), ("A" * 43 + "=",)])
def test_notice_and_finding_agree_when_the_recorder_is_silent(
    site: Site, hook: Any, interval: int, keys: tuple[str, ...]
) -> None:
    """Whoever is told by one is told by the other: both have the same limit."""
    document = json.loads(site.bench.topology.read_text())
    settings = {"archive": "file:///tmp/archive", "public_keys": keys, "interval_seconds": interval}
    site.bench.topology.write_text(json.dumps({**document, "recorder": settings}))
    sender = site.sender()
    for name in (RECORDER, "recorder primary->standby", "recorder standby->primary"):
        site.journal.show_life(name)
    age = 0
    for step in (29, 2, 58, interval, interval, interval - 1, 2):
        age += step
        site.look(sender, step)
        assert bool(hook.events) == bool([*recorder_findings(age, interval)]), age
    assert "recorder_silent" in hook.events


def test_a_readiness_that_falls_is_told_once_by_however_many(site: Site, hook: Any) -> None:
    """Also if the sender that saw the state before has ended."""
    folder = site.evidence / "readiness"
    folder.mkdir(parents=True)

    def checked(state: str) -> None:
        site.now += timedelta(seconds=300)
        times = {"checked_at": site.now.isoformat(), "stale_after": (site.now + timedelta(minutes=15)).isoformat()}
        document = {"form": FORM, "state": state, "reasons": ["lag of 300 s"], **times}
        (folder / "primary-to-standby.json").write_text(json.dumps(document))

    checked("VERIFIED")
    one = site.sender()
    checked("NOT_VERIFIED")
    two = site.sender()
    site.look(one)
    assert hook.events == ["readiness_fell"] and "lag of 300 s" in hook.documents[0]["lines"]
    checked("VERIFIED")
    site.look(two)
    checked("NEEDS_VERIFICATION")
    site.look(one)
    site.look(two)
    assert hook.events == ["readiness_fell"] * 2
    (folder / "primary-to-standby.json").write_text("[broken")
    site.look(one)
    assert hook.events == ["readiness_fell"] * 2


@pytest.mark.parametrize("mood", [LATER, HANGS_UP])
def test_a_fall_of_readiness_is_tried_again(site: Site, hook: Any, mood: str) -> None:
    """A server that was away at the moment of the fall is asked again; one that may have taken it is not."""
    folder = site.evidence / "readiness"
    folder.mkdir(parents=True)
    times = {"checked_at": site.now.isoformat(), "stale_after": (site.now + timedelta(hours=15)).isoformat()}
    path = folder / "primary-to-standby.json"
    path.write_text(json.dumps({"form": FORM, "state": "VERIFIED", **times}))
    sender = site.sender()
    path.write_text(json.dumps({"form": FORM, "state": "NOT_VERIFIED", **times}))
    hook.mood = mood
    site.look(sender)
    hook.mood = GOOD
    for _ in range(3):
        site.look(sender, 60)
    assert hook.events == ["readiness_fell"] * (2 if mood == LATER else 1)
    site.look(sender, 2 * 86_400)
    assert len([event for event in hook.events if event == "readiness_fell"]) == (2 if mood == LATER else 1)


def test_what_ended_weeks_ago_is_forgotten(site: Site, hook: Any) -> None:
    """A watcher that runs for months neither keeps all of its procedures nor sends an end again."""
    sender = site.sender()
    site.opened()
    site.closed()
    site.look(sender)
    assert hook.events == ["completed"] and list(sender._board._entries) == ["p-1"]
    site.look(sender, 9 * 86_400)
    assert hook.events == ["completed"] and sender._board._entries == {}
    site.opened("p-2")
    site.closed("failed", about="p-2")
    site.look(sender)
    assert hook.events == ["completed", "failed"]


def test_without_a_route_nothing_is_read(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A site that wants no notices pays nothing, and needs no connection."""
    monkeypatch.setenv("KAFKA_DR_TOPOLOGY", str(site.bench.topology))
    site.routes()
    looks: list[int] = []
    watch_notices(site.lines.append, deliver_notice, 0.0, ended=lambda: looks.append(1) or len(looks) > 3)
    assert site.lines == []


def test_what_keeps_notices_from_being_read_is_told_once(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop goes on, and tells nothing new while nothing is new."""
    monkeypatch.setenv("KAFKA_DR_TOPOLOGY", str(site.bench.topology))
    monkeypatch.setattr(sending, "Connections", lambda: site.bench.connections)
    monkeypatch.setattr(NoticeSender, "look", lambda *_: 1 / 0)
    looks: list[int] = []
    shown: list[Journal] = []
    watch_notices(site.lines.append, deliver_notice, 0.0, shown.append, lambda: looks.append(1) or len(looks) > 3)
    assert site.lines == ["notices: ZeroDivisionError: division by zero"] and len(shown) == 3


@pytest.mark.parametrize(
    ("route", "problem"),
    [
        ({"kind": "smtp", "connection": "x"}, "`to`, a list of mail addresses, is for the kind smtp"),
        ({"kind": "slack", "connection": "x"}, "`channel` is for the kind slack"),
        ({**HOOK, "to": ["a@b.c"]}, "`to`, a list of mail addresses, is for the kind smtp"),
        ({**MAIL, "to": ["Ops <a@b.c>"]}, "expected one mail address"),
        ({**HOOK, "flows": ["primary->third"]}, "is not a flow of this file; flows: 'primary->standby'"),
        ({**HOOK, "flows": [".*"]}, "expected a flow, written source->target"),
        ({**HOOK, "least_severity": "loud"}, "least_severity"),
        ({**HOOK, "url": "https://hooks.example.org"}, "looks like an address"),
    ],
)
def test_a_route_that_cannot_be_used_is_refused(site: Site, route: dict[str, Any], problem: str) -> None:
    """When the topology is read, before anything is touched."""
    with pytest.raises(BadInput) as refused:
        site.routes(route)
    assert problem in str(refused.value)


def test_a_run_is_not_bound_to_its_notices(site: Site) -> None:
    """Whoever adds a recipient during a run does not stop the run."""
    assert topology_digest(site.routes()) == topology_digest(site.routes(HOOK, MAIL))
    assert site.journal.notices(state=NoticeState.CLAIMED) == []
