"""re_replicate_topics on a real lab: the target equals the source record for record, and nothing else has changed."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.environment.bring_up import up
from lab.environment.state import Lab
from lab.environment.take_down import down
from tests.faults.replication.re_replicated_site import SOURCE, TARGET, Site
from tests.faults.support.stepping import Run, Stepping, stepping

PARAMS = {"source": SOURCE, "target": TARGET, "reason": "records are missing on the standby"}
POLICIES = ("default", "identity")


class Copied:
    """One lab of one naming policy, and runs of the procedure on it."""

    def __init__(self, state: Path, driver: Stepping) -> None:
        self.site, self.driver = Site(Lab(state)), driver

    def run(self, topics: str, **params: Any) -> dict[str, Any]:
        """Run the procedure to its end; return the evidence."""
        run = Run({**PARAMS, "topics": topics, **params}, dag_id="re_replicate_topics")
        try:
            evidence = self.driver.whole(run)
        finally:
            print(run.ended, {step: text for step, text in run.texts.items() if text}, flush=True)
        print(evidence["outcome"], evidence["reason_for_outcome"], evidence["seconds"], flush=True)
        return evidence

    def completed(self, topics: str, **params: Any) -> dict[str, Any]:
        """Run the procedure, and assert that it completed; return figures by step."""
        evidence = self.run(topics, **params)
        assert evidence["outcome"] == "completed", f"{evidence['failing_step']}: {evidence['reason_for_outcome']}"
        return {step["id"]: step["figures"] for step in evidence["steps"]}


@pytest.fixture(scope="module", params=POLICIES)
def copied(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copied]:
    """A lab without Airflow."""
    state = tmp_path_factory.mktemp("lab")
    up(state, airflow=False, policy=request.param)
    try:
        with stepping(Lab(state), tmp_path_factory.mktemp("steps")) as driver:
            yield Copied(state, driver)
    finally:
        down(state)


def new_name() -> str:
    """Return a topic name that no other test uses."""
    return f"ho.again-{uuid.uuid4().hex[:6]}"


def assert_alike(site: Site, topic: str) -> None:
    """The target's log equals the source's, record for record."""
    assert site.contents(TARGET, site.remote(topic)) == site.contents(SOURCE, topic)


def test_a_plain_topic(copied: Copied) -> None:
    """Deleted and copied again: records, settings and positions are there, other topics' offsets are as before."""
    site, topic, other = copied.site, new_name(), new_name()
    for name in (topic, other):
        site.create(name, 3)
        site.numbered(name, 3, 0, 300)
        site.await_copied(name)
    remote = site.remote(topic)
    site.commit(SOURCE, "readers", {(topic, 0): 10, (topic, 1): 100, (topic, 2): 37})
    site.commit(TARGET, "readers", {(remote, 0): 4, (remote, 1): 5, (remote, 2): 6})
    site.settled_offsets(topic)
    before, settings = site.settled_offsets(other), site.settings(TARGET, remote)
    figures = copied.completed(topic, delete_target_topics=True)
    assert figures["verify_copies"]["records"] == 300
    assert_alike(site, topic)
    assert site.settings(TARGET, remote) == settings
    assert site.positions(TARGET, "readers") == {(remote, 0): 10, (remote, 1): 100, (remote, 2): 37}
    after = site.offsets()
    assert {place: after.get(place) for place in before if place[0] != topic} == {
        place: offset for place, offset in before.items() if place[0] != topic
    }
    site.numbered(other, 3, 300, 30)
    site.await_copied(other)
    assert_alike(site, other)
