"""change_replication killed after every journal write, forward and on the way back: one end state, nothing twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lab.environment.state import Lab
from tests.faults.replication.flow_changes import (
    CHECKPOINT,
    EXTRA,
    KEPT,
    MIRROR,
    changes_on,
    config_of,
    tasks_of,
    traffic_on,
)


@pytest.mark.parametrize("policy", ["identity", "default"])
def test_killed_after_every_journal_write(policy: str, fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """Each step killed after its n-th write and tried again; then a change that breaks the flow, killed likewise."""
    lab = Lab(fresh_lab(policy, airflow=False))
    with changes_on(lab, tmp_path) as changes, traffic_on(lab, policy, size=4_000) as traffic:
        traffic.await_first(KEPT, EXTRA)
        run, points = changes.new(remove_topics=r"extra\..*", settings={"tasks.max": "3"}), []
        for step in [*run.steps, "close_procedure"]:
            points += [f"{step} {point}" for point in changes.driver.killed_everywhere(run, step)]
            assert run.ended[step] == "done", run.texts
        evidence = changes.driver.evidence(run)
        print(f"{len(points)} points: {points}", flush=True)
        assert evidence["outcome"] == "completed" and len(points) > 20
        assert tasks_of(lab, MIRROR) == ["RUNNING"] * 3
        changes.completed(add_topics=r"extra\..*", settings={"tasks.max": "2"})
        before = {name: config_of(lab, name) for name in (MIRROR, CHECKPOINT)}

        run = changes.new(remove_topics=r"extra\..*", settings={"producer.override.max.request.size": "2000"})
        assert not changes.driver.forward(run), "records of twice this size were copied"
        points = changes.driver.killed_everywhere(run, "return_to_source")
        changes.driver.step(run, "close_procedure")
        print(f"{len(points)} points of the way back: {points}", flush=True)
        assert changes.driver.evidence(run)["outcome"] == "returned" and len(points) > 4
        assert before == {name: config_of(lab, name) for name in (MIRROR, CHECKPOINT)}
        assert set(tasks_of(lab, MIRROR)) == {"RUNNING"}
        traffic.end()
        traffic.assert_copied_once(KEPT, EXTRA)
