"""Brokers that were not live when a fence was proven are probed once they live again."""

from __future__ import annotations

from typing import Any

import pytest
from kafka_dr.hooks.brokers.record_writer import WriteAccepted, WriteRefused, WriteUnknown
from kafka_dr.steps.planned.fence_producers import FenceProducers
from kafka_dr.vocabulary import Entry, Step
from kafka_dr.watcher import returned_brokers
from kafka_dr.watcher.returned_brokers import ReturnedBrokers

from tests.support.bench import GRANT

REFUSED = WriteRefused("TOPIC_AUTHORIZATION_FAILED", True, 2)


@pytest.fixture
def fenced(bench: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A planned run that was fenced while broker 2, which holds a replica, was not live."""
    monkeypatch.setattr(returned_brokers, "_SECONDS", 0.0)
    bench.planned()
    bench.clusters["primary"].acls = {GRANT}
    bench.clusters["primary"].placed = {"orders": {0: (1, 2)}}
    FenceProducers(task_id=Step.FENCE_PRODUCERS.value).execute(bench.context())
    assert bench.entries(Step.FENCE_PRODUCERS)[-1].payload["brokers_dead"] == [2]
    return bench


def returns(bench: Any, answer: Any) -> None:
    """Broker 2 lives again, leads a partition of the probe's topic, and answers the probe so."""
    primary = bench.clusters["primary"]
    primary.broker_ids = [1, 2]
    primary.partitions["__switchback_probe"] = {0: 1, 1: 2}
    bench.probe_answers[1] = answer


def written(bench: Any) -> list[tuple[Any, Any]]:
    """Return which brokers the watcher's notes name as refusing, and as accepting."""
    notes = bench.journal.entries(step=Step.WATCH_OLD_SOURCE, kind=Entry.NOTE)
    return [(note.payload["returned_refusing"], note.payload["returned_accepting"]) for note in notes]


def test_a_broker_that_returns_is_probed_until_it_has_refused_once(fenced: Any) -> None:
    """While it is away, or gives no clear answer, it stays to be probed; what it refused is in the journal once."""
    watcher, procedure = ReturnedBrokers(), fenced.procedure()
    assert watcher.probe(procedure) == "" and written(fenced) == []
    returns(fenced, WriteUnknown("no answer"))
    assert watcher.probe(procedure) == "" and written(fenced) == []
    returns(fenced, REFUSED)
    assert [watcher.probe(procedure) for _ in range(3)] == [""] * 3
    assert written(fenced) == [([2], [])]
    assert ReturnedBrokers().probe(procedure) == "" and written(fenced) == [([2], [])]


def test_a_broker_that_accepts_the_write_is_named_as_long_as_it_does(fenced: Any) -> None:
    """The journal has it once, and then that it refuses."""
    watcher, procedure = ReturnedBrokers(), fenced.procedure()
    returns(fenced, WriteAccepted(1, 2))
    for _ in range(2):
        assert "brokers of primary that were not live" in watcher.probe(procedure)
    returns(fenced, REFUSED)
    assert watcher.probe(procedure) == ""
    assert written(fenced) == [([], [2]), ([2], [])]


def test_another_pairs_move_does_not_delay_the_probe(fenced: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One watcher guards all pairs: a broker of one of them that stays away keeps no other from being probed."""
    monkeypatch.setattr(returned_brokers, "_SECONDS", 60.0)
    watcher, procedure = ReturnedBrokers(), fenced.procedure()
    watcher.probe(fenced.procedure("another"))
    returns(fenced, REFUSED)
    watcher.probe(procedure)
    assert written(fenced) == [([2], [])]


def test_a_move_without_a_dead_broker_is_not_probed(bench: Any) -> None:
    """Not even the brokers are listed: the source may be away for good."""
    bench.planned()
    bench.clusters["primary"].acls = {GRANT}
    FenceProducers(task_id=Step.FENCE_PRODUCERS.value).execute(bench.context())
    bench.clusters["primary"].away = True
    assert ReturnedBrokers().probe(bench.procedure()) == "" and written(bench) == []
