"""readiness_check tells people itself: once, after the check, whatever the servers of notices do."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from kafka_dr.domain.readiness.report import FORM
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.steps.always_on import notifiers
from kafka_dr.steps.always_on.send_notices import SendNotices
from kafka_dr.vocabulary import Step
from kafka_dr.watcher import notices as sending

from tests.support.bench import Bench
from tests.support.notices.servers import HANGS, webhook_server

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


class Site:
    """An installation of which only the check every five minutes sends notices."""

    def __init__(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bench, self.now = bench, NOON
        routes = [{"kind": "webhook", "connection": "notices_hook"}]
        document = json.loads(bench.topology.read_text())
        bench.topology.write_text(json.dumps({**document, "notifications": routes}))
        monkeypatch.setenv("KAFKA_DR_TOPOLOGY", str(bench.topology))
        self.journal = Journal(bench.url, clock=lambda: self.now)
        monkeypatch.setattr(sending, "Connections", lambda: bench.connections)
        monkeypatch.setattr(sending, "Journal", lambda _url: self.journal)
        self.path = Path(document["evidence"]) / "readiness" / "primary-to-standby.json"
        self.path.parent.mkdir(parents=True)

    def checked(self, state: str = "VERIFIED", watched: bool = True, **more: Any) -> None:
        """Let five minutes pass, and run the DAG once, in processes that know nothing of each other."""
        self.now += timedelta(minutes=5)
        if watched:
            self.journal.show_life(Step.WATCH_OLD_SOURCE)
        times = {"checked_at": self.now.isoformat(), "stale_after": (self.now + timedelta(minutes=15)).isoformat()}
        self.path.write_text(json.dumps({"form": FORM, "state": state, "reasons": [], **times, **more}))
        SendNotices(task_id="send_notices").execute({})


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The webhook of the route."""
    with webhook_server() as (server, url):
        monkeypatch.setenv("AIRFLOW_CONN_NOTICES_HOOK", json.dumps({"conn_type": "http", "host": url}))
        yield server


@pytest.fixture
def site(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Site:
    """The installation."""
    return Site(bench, monkeypatch)


def test_a_fall_and_a_drill_that_is_due_leave_with_their_check(site: Site, hook: Any) -> None:
    """Each once, although every check finds them again."""
    site.checked()
    site.checked("NOT_VERIFIED", next_drill_due=(NOON - timedelta(days=1)).isoformat())
    site.checked("NOT_VERIFIED", next_drill_due=(NOON - timedelta(days=1)).isoformat())
    assert sorted(hook.events) == ["drill_due", "readiness_fell"]


def test_silence_is_told_though_no_process_lives_from_check_to_check(site: Site, hook: Any) -> None:
    """Not by the first check after a long time without any, as nobody could have shown life meanwhile."""
    site.checked()
    site.now += timedelta(days=3)
    site.checked(watched=False)
    assert hook.events == []
    site.checked(watched=False)
    site.checked(watched=False)
    assert hook.events == ["watcher_silent"]
    site.checked()
    site.now += timedelta(hours=1)
    site.checked(watched=False)
    assert hook.events == ["watcher_silent"]


def test_a_server_that_hangs_ends_with_its_limit(site: Site, hook: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One notice is on its way then, the others wait for the next check; nothing fails."""
    site.checked()
    monkeypatch.setattr(notifiers, "TIMEOUT_SECONDS", 600)
    monkeypatch.setattr(sending.NoticeSender.__init__, "__defaults__", (2.0, None, 0.0))
    monkeypatch.setattr(sending, "_BEGIN_SECONDS", 1.0)
    hook.mood = HANGS
    began = time.monotonic()
    site.checked("NOT_VERIFIED", next_drill_due=NOON.isoformat())
    assert len(hook.events) == 1 and time.monotonic() - began < 60
    states = [record.state.value for record in site.journal.notices(about="primary->standby")]
    assert states == ["unknown"]


def test_without_a_route_nothing_is_opened(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A site that wants no notices needs nothing for them."""
    site.bench.topology.write_text(json.dumps({**json.loads(site.bench.topology.read_text()), "notifications": []}))
    monkeypatch.setattr(sending, "Journal", None)
    site.checked()


def test_a_topology_that_cannot_be_read_names_the_page(site: Site) -> None:
    """In the log of the task that sends; the check's own task tells the same."""
    site.bench.topology.write_text("flows: 7")
    with pytest.raises(AirflowFailException, match=r"readiness_check\.md#send_notices"):
        site.checked()


def test_the_run_ends_as_its_check(dag_bag: Any) -> None:
    """Sending comes after the check, also after one that failed, and neither hides a failure nor makes one."""
    task, check = (dag_bag.dags["readiness_check"].get_task(name) for name in ("send_notices", "check_flows"))
    assert task.upstream_task_ids == {"check_flows"} and task.is_teardown and not task.on_failure_fail_dagrun
    limits = [one.execution_timeout.total_seconds() for one in (task, check)]
    assert sum(limits) < dag_bag.dags["readiness_check"].schedule.total_seconds() and task.retries == 0
