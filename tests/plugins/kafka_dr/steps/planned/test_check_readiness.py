"""Readiness is asked of a flow at rest."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from kafka_dr.actions.readiness import observe as observation
from kafka_dr.actions.readiness.observe import observed_at_rest
from kafka_dr.actions.readiness.topic_ids import known_topic_ids
from kafka_dr.domain.readiness.readiness import find_blockers
from kafka_dr.errors import ConnectUnavailable
from kafka_dr.vocabulary import Step

from tests.plugins.kafka_dr.domain.readiness.test_readiness import seen, with_tasks
from tests.support.bench import PAIR


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes the clusters show one state after the other; what is left was not looked at."""

    def make(*states: Any) -> list[Any]:
        left = list(states)
        monkeypatch.setattr(observation, "observe_pair", lambda procedure, known: left.pop(0))
        monkeypatch.setattr(observation, "_LOOK_AGAIN_SECONDS", 0.0)
        return left

    return make


def test_a_rebalance_is_waited_for(looks: Any) -> None:
    """The first look at which nothing is being assigned counts, and no look is made after it."""
    ready = seen()
    left = looks(with_tasks("RUNNING", "UNASSIGNED"), with_tasks("UNASSIGNED"), ready, seen())
    assert observed_at_rest(None, {}) is ready and len(left) == 1


def test_what_is_wrong_is_not_waited_for(looks: Any) -> None:
    """A failed task fails at once."""
    failed = with_tasks("RUNNING", "FAILED", "UNASSIGNED")
    looks(failed)
    assert observed_at_rest(None, {}) is failed


def test_a_rebalance_without_end_is_told(looks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """After some seconds the gates are asked of what was seen last."""
    monkeypatch.setattr(observation, "_SETTLED_SECONDS", 0.0)
    unassigned = with_tasks("RUNNING", "UNASSIGNED")
    looks(unassigned)
    assert observed_at_rest(None, {}) is unassigned


def test_topics_that_a_failback_made_anew_are_known(bench: Any) -> None:
    """Their new ids are those of the next failover; what a failback made on the other cluster is none of its topics."""
    bench.done(bench.opened(), Step.CHECK_READINESS, topic_ids={"orders": "old", "audit": "kept"})
    assert known_topic_ids(bench.procedure()) == {"orders": "old", "audit": "kept"}
    bench.dag_id = "failback"
    for run_id, source, target in (("b1", "standby", "primary"), ("b2", "primary", "standby")):
        bench.params = {"source": source, "target": target, "reason": "it is back"}
        bench.journal.release_lease(
            PAIR, bench.journal.lease(PAIR).holder, bench.journal.lease(PAIR).epoch, "completed"
        )
        failback = bench.opened(run_id)
        made = pd.DataFrame([("orders", f"by-{run_id}")], columns=["topic", "topic_id"])
        bench.done(failback, Step.PREPARE_TOPICS, recreated=failback.artifacts.save("recreated", made))
    bench.dag_id, bench.params = "planned_failover", {"source": "primary", "target": "standby", "reason": "again"}
    assert known_topic_ids(bench.procedure()) == {"orders": "by-b1", "audit": "kept"}


@pytest.mark.parametrize("version", ["2.8.2", "7.5.1-ccs", "7.5.1", "99.1"])
def test_a_worker_that_cannot_set_offsets_is_not_asked_for_them(
    version: str, bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever its version, the check refuses by name, where a request would only fail with 404."""

    def absent(name: str, timeout: float = 60.0) -> Any:
        raise ConnectUnavailable("the request GET /offsets to Connect failed", "HTTP 404", "look")

    worker, procedure = bench.workers["standby"], bench.opened()
    monkeypatch.setattr(worker, "offsets", absent)
    worker.version, worker.is_old = version, True
    view = observation.flow_view(procedure, procedure.flow)
    assert (view.replicated, view.worker.version) == ({}, version)
    assert "versions_suffice" in {blocker.gate for blocker in find_blockers(seen(flow=view))}
    worker.is_old = False
    with pytest.raises(ConnectUnavailable):
        observation.flow_view(procedure, procedure.flow)
