"""An installation whose page has much to read: past procedures, a running one of many groups, full documents."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from airflow.api_fastapi.core_api.security import get_user
from fastapi.testclient import TestClient
from kafka_dr.actions.readiness.document import document_path
from kafka_dr.domain.readiness.report import Checked, Outlook, document_of
from kafka_dr.domain.readiness.state import Gravity, ReadinessFinding
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.procedure.entries import Receipt
from kafka_dr.procedures import PLANNED_FAILOVER
from kafka_dr.vocabulary import Entry, Step
from kafka_dr.web import app as web

from tests.support.bench import PAIR, Bench
from tests.support.facts import entry

#: Nobody asks for an evidence page's content here: it must be there.
_PAGE = "<!doctype html><title>evidence</title>"
NO_PLAN = {"plan_file": vars(Receipt("plan-gone.json", 1, "0" * 64)), "plan_digest": "0" * 64}


class HeavySite:
    """The page, and the journal behind it."""

    def __init__(self, folder: Path) -> None:
        self.bench = Bench(folder)
        self.client = TestClient(web.app, root_path="/switchback")
        self._began = datetime.now(UTC) - timedelta(days=200)
        self._now = self._began
        self._journal = Journal(self.bench.url, clock=lambda: self._now)

    def fill(self, past: int, groups: int) -> None:
        """Let so many procedures end, and one with so many groups run; write a document of each flow."""
        for number in range(past):
            self._procedure(f"past-{number}", groups // 10, ended=True)
        self._now = datetime.now(UTC) - timedelta(seconds=300)
        self._procedure("running", groups, ended=False)
        for source, target in (("primary", "standby"), ("standby", "primary")):
            self._document(source, target, groups)

    def _procedure(self, run_id: str, groups: int, ended: bool) -> None:
        by = f"planned_failover-{run_id}"
        epoch = self._journal.take_lease(PAIR, by)
        opened = {"dag_id": "planned_failover", "run_id": run_id, "source": "primary", "target": "standby"}
        request = {"deadlines": {"max_fence_seconds": 36_000.0}}
        self._write(by, epoch, Step.OPEN_PROCEDURE, Entry.OPENED, **opened, reason="why", request=request)
        for step in PLANNED_FAILOVER.steps[: None if ended else 8]:
            more: dict[str, Any] = {}
            if step == Step.FORECAST:
                more = {**NO_PLAN, "active_groups": [f"team-{n % 40}.service-{n}" for n in range(groups)]}
            if step != Step.OPEN_PROCEDURE:
                self._write(by, epoch, step, Entry.INTENT)
                self._write(by, epoch, step, Entry.OUTCOME, **more)
        if ended:
            self._write(by, epoch, Step.CLOSE_PROCEDURE, Entry.CLOSED, outcome="completed")
            self._journal.release_lease(PAIR, by, epoch, "completed", self._now)
            folder = self.bench.folder / "evidence" / by
            folder.mkdir(parents=True)
            (folder / "evidence.html").write_text(_PAGE)

    def _write(self, by: str, epoch: int, step: str, kind: Entry, **given: Any) -> None:
        self._now += timedelta(seconds=1)
        self._journal.append(by, step, kind, epoch, entry(step, kind, **given).payload)

    def _document(self, source: str, target: str, groups: int) -> None:
        """Write a document with a finding of each tenth group."""
        found = [ReadinessFinding("group_odd", Gravity.WARNING, f"g-{n}", "x" * 200) for n in range(groups // 10)]
        outlook = Outlook(unknown=dict.fromkeys(("certain", "possible", "rereads", "seconds"), "no run states it"))
        path = document_path(str(self.bench.folder / "evidence"), source, target)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document_of(Checked(source, target, datetime.now(UTC), found, outlook), None)))

    def get(self, path: str) -> str:
        """Return a page."""
        answer = self.client.get(path)
        assert answer.status_code == 200, answer.text[:500]
        return answer.text


@contextmanager
def heavy_site(folder: Path, past: int, groups: int) -> Iterator[HeavySite]:
    """Yield an installation whose page a person sees who may read everything."""
    site = HeavySite(folder)
    kept = {name: os.environ.get(name) for name in ("KAFKA_DR_TOPOLOGY", "AIRFLOW_CONN_JOURNAL")}
    os.environ["KAFKA_DR_TOPOLOGY"] = str(site.bench.topology)
    os.environ["AIRFLOW_CONN_JOURNAL"] = json.dumps({"conn_type": "generic", "extra": {"url": site.bench.url}})
    manager, web.get_auth_manager = web.get_auth_manager, lambda: SimpleNamespace(is_authorized_dag=lambda **_: True)
    paused, web._paused_dags = web._paused_dags, dict
    web.app.dependency_overrides[get_user] = lambda: SimpleNamespace(name="viewer")
    try:
        site.fill(past, groups)
        yield site
    finally:
        web.app.dependency_overrides.clear()
        web.get_auth_manager, web._paused_dags = manager, paused
        for name, value in kept.items():
            os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)
