"""change_replication without a Connect worker's REST API: a person edits, the hook reports, records show the rest."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from lab.environment.bring_up import up
from lab.environment.state import Lab
from lab.environment.take_down import down
from tests.faults.re_replication.hooked_site import (
    EditedDeletingServer,
    EditedServer,
    HookedSite,
    choices_of,
    hook_of,
)
from tests.faults.re_replication.re_replicated_site import SOURCE, TARGET
from tests.faults.re_replication.test_re_replicated_topics import load_on
from tests.faults.replication.flow_changes import Changes
from tests.faults.support.scene import until
from tests.faults.support.stepping import Run, stepping

EXTRA = r"extra\..*"


class HookedChanges(Changes):
    """Runs on one flow without a Connect worker; `kept` stays in the flow, `extra` leaves and comes back."""

    site: HookedSite
    hook: EditedServer | EditedDeletingServer

    @contextmanager
    def person(self, run: Run) -> Iterator[None]:
        """Edit what the run's plan says, once nothing runs."""

        def edit() -> None:
            until(lambda: run.ended.get("stop_changed_flow") == "done" and self.hook.count() == 0, "the stop", 300.0)
            plan = json.loads(next((self.lab.evidence / run.procedure_id).glob("plan-*.json")).read_text())
            print(f"edited: {plan['connectors']}", flush=True)
            self.hook.edit({name: one["wanted"] for name, one in plan["connectors"].items()})

        thread = threading.Thread(target=edit)
        thread.start()
        try:
            yield
        finally:
            thread.join()

    def edited(self, **params: Any) -> dict[str, Any]:
        """Run a change with a person who edits; assert that it completed, and return its evidence."""
        run = self.new(**params)
        with self.person(run):
            evidence = self.driver.whole(run)
        for step in evidence["steps"]:
            print(f"  {step['id']} {step['state']} {step['figures']}", flush=True)
        assert evidence["outcome"] == "completed", f"{evidence['failing_step']}: {evidence['reason_for_outcome']}"
        return evidence

    def copies(self, topic: str) -> dict[int, Any]:
        """Return what the target holds of a topic."""
        return self.site.contents(TARGET, self.site.remote(topic))


@pytest.fixture(scope="module", params=["connect-2.8.2", "dedicated-default", "dedicated-identity"])
def changes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HookedChanges]:
    """A lab without Airflow, and a hook that reports settings."""
    state, (policy, choices) = tmp_path_factory.mktemp("lab"), choices_of(request.param)
    up(state, airflow=False, policy=policy, **choices)
    try:
        lab = Lab(state)
        with hook_of(lab, request.param) as hook, stepping(lab, tmp_path_factory.mktemp("steps")) as driver:
            made = HookedChanges(lab, driver)
            made.site, made.hook = HookedSite(lab), hook
            yield made
    finally:
        down(state)


def test_topics_leave_and_come_back(changes: HookedChanges) -> None:
    """Under load on another topic, of which no record is there twice; what was excluded is copied afterwards, once."""
    site = changes.site
    kept, extra = f"kept-{uuid.uuid4().hex[:6]}", f"extra.{uuid.uuid4().hex[:6]}"
    for topic in (kept, extra):
        site.create(topic, 3)
        site.numbered(topic, 3, 0, 90)
        site.await_copied(topic)
    with load_on(site, kept):
        changes.edited(remove_topics=EXTRA)
    site.numbered(extra, 3, 90, 30)
    site.await_copied(kept)
    assert {p: len(rows) for p, rows in changes.copies(extra).items()} == dict.fromkeys(range(3), 30)
    with load_on(site, kept):
        evidence = changes.edited(add_topics=EXTRA)
    assert evidence["plan"]["edited_by_hand"]
    for topic in (kept, extra):
        site.await_copied(topic)
        assert changes.copies(topic) == site.contents(SOURCE, topic)


def test_a_file_that_nobody_edits(changes: HookedChanges) -> None:
    """The run waits to its deadline, says what to edit, and goes back: the flow runs as before."""
    site, before = changes.site, changes.hook.settings()
    topic = f"kept-{uuid.uuid4().hex[:6]}"
    site.create(topic, 1)
    site.numbered(topic, 1, 0, 30)
    site.await_copied(topic)
    evidence = changes.run(settings={"offset.lag.max": "7"}, approval_wait_seconds=15)
    assert (evidence["outcome"], evidence["failing_step"]) == ("returned", "change_connectors")
    assert "set offset.lag.max = 7" in evidence["reason_for_outcome"]
    assert changes.hook.settings() == before and changes.hook.count() > 0
    site.numbered(topic, 1, 30, 30)
    site.await_copied(topic)
    assert changes.copies(topic) == site.contents(SOURCE, topic)
