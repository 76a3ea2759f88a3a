"""The web page as one person sees it: real app, real journal, real documents; Airflow's idea of rights is given."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.api_fastapi.core_api.security import get_user
from fastapi.testclient import TestClient
from kafka_dr.actions.readiness.document import document_path
from kafka_dr.domain.readiness.report import Checked, Outlook, document_of
from kafka_dr.domain.readiness.state import ReadinessFinding
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.procedures import PROCEDURES
from kafka_dr.vocabulary import Entry, Step
from kafka_dr.web import app as web

from tests.support.facts import entry

PAIR, ID = "primary+standby", "planned_failover-r_1"
ODD = "<script>alert(1)</script>{{ 7*7 }}"
ALL_DAGS = frozenset({*PROCEDURES, "readiness_check"})
NOTHING_KNOWN = Outlook(unknown=dict.fromkeys(("certain", "possible", "rereads", "seconds"), "no run states it"))


class Site:
    """The page as one person sees it, and the journal and documents behind it."""

    def __init__(self, bench: Any) -> None:
        self.bench, self.readable = bench, set(ALL_DAGS)
        self.client = TestClient(web.app, root_path="/switchback")
        self.epochs: dict[str, int] = {}

    def journal(self, seconds_ago: float) -> Journal:
        """The journal, whose clock is behind by so much."""
        return Journal(self.bench.url, clock=lambda: datetime.now(UTC) - timedelta(seconds=seconds_ago))

    def write(self, seconds_ago: float, step: str, kind: str, by: str = ID, **payload: Any) -> None:
        """One entry, written some time ago."""
        journal = self.journal(seconds_ago)
        if by not in self.epochs:
            self.epochs[by] = journal.take_lease(PAIR, by)
        journal.append(by, step, kind, self.epochs[by], entry(step, kind, **payload).payload)

    def opened(
        self, reason: str = "maintenance", by: str = ID, ago: float = 200, source: str = "primary", **more: Any
    ) -> None:
        """A procedure that holds the pair."""
        target = "standby" if source == "primary" else "primary"
        run_id = "r+1" if by == ID else by.rpartition("-")[2]
        opened = {"dag_id": by.rpartition("-")[0], "run_id": run_id, "source": source, "target": target}
        opened |= {"reason": reason, "request": {"deadlines": {"max_fence_seconds": 600.0}}, **more}
        self.write(ago, Step.OPEN_PROCEDURE, Entry.OPENED, by, **opened)

    def closed(self, ago: float, by: str = ID, outcome: str = "completed") -> None:
        """The procedure has ended, and released the pair."""
        self.write(ago, Step.CLOSE_PROCEDURE, Entry.CLOSED, by, outcome=outcome)
        self.journal(ago).release_lease(PAIR, by, self.epochs[by], outcome)

    def moved(self, ago: float = 100, by: str = ID, source: str = "primary", fenced: bool = True) -> None:
        """A completed procedure that moved clients away from `source`."""
        self.opened(by=by, ago=ago + 60, source=source)
        if fenced:
            self.write(ago + 30, Step.FENCE_PRODUCERS, Entry.OUTCOME, by)
        self.write(ago + 20, Step.OPEN_TARGET, Entry.INTENT, by, removes_acl_entries=[])
        self.write(ago + 10, Step.OPEN_TARGET, Entry.OUTCOME, by, opened_at="2026-11-27T05:00:00+00:00")
        self.write(ago, Step.REDIRECT_CLIENTS, Entry.OUTCOME, by)
        self.closed(ago - 1, by)

    def checked(
        self,
        *findings: ReadinessFinding,
        ago: float = 60,
        source: str = "primary",
        outlook: Outlook = NOTHING_KNOWN,
        earlier: float | None = None,
        **fields: Any,
    ) -> dict[str, Any]:
        """A check of a flow ended some time ago; the document, as readiness_check writes it.

        Args:
            earlier: how long ago an earlier check found the same.
        """
        now, target = datetime.now(UTC), "standby" if source == "primary" else "primary"
        checked = Checked(source, target, now - timedelta(seconds=ago), findings, outlook, **fields)
        before = None if earlier is None else replace(checked, at=now - timedelta(seconds=earlier))
        document = document_of(checked, None if before is None else document_of(before, None))
        self.store(json.dumps(document), source)
        return document

    def store(self, text: str, source: str = "primary") -> None:
        """A readiness document, whatever is in it."""
        target = "standby" if source == "primary" else "primary"
        path = document_path(str(self.bench.folder / "evidence"), source, target)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def get(self, path: str = "/") -> Any:
        """One page."""
        return self.client.get(path)


@pytest.fixture
def site(bench: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A person who may read everything."""
    site = Site(bench)
    monkeypatch.setenv("AIRFLOW_CONN_JOURNAL", json.dumps({"conn_type": "generic", "extra": {"url": bench.url}}))
    monkeypatch.setattr(
        web,
        "get_auth_manager",
        lambda: SimpleNamespace(is_authorized_dag=lambda details, **_: details.id in site.readable),
    )
    web.app.dependency_overrides[get_user] = lambda: SimpleNamespace(name="viewer")
    yield site
    web.app.dependency_overrides.clear()
