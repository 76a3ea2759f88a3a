"""Stop a flow whose connectors are on two Connect workers."""

from __future__ import annotations

from typing import Any

import pytest
from kafka_dr.actions.replication.stop import STOPPED, parts_of, stop_flow
from kafka_dr.errors import ConnectUnavailable
from kafka_dr.vocabulary import Entry, Step

from tests.support.connect import Worker

SOURCES = ("p.low", "p.high")


@pytest.fixture
def split(make_bench: Any) -> Any:
    """A bench whose flow has two source connectors, and its checkpoint connector on another worker."""
    connectors = {"source": SOURCES, "checkpoint": {"connect": "connect_other", "name": "p.checkpoint"}}
    flow = {"source": "primary", "target": "standby", "connect": "connect_standby", "connectors": connectors}
    bench = make_bench(flows=[flow])
    bench.workers["standby"].states = dict.fromkeys(SOURCES, "RUNNING")
    bench.workers["other"] = Worker({"p.checkpoint": "RUNNING"})
    return bench


def test_all_connectors_are_stopped_each_where_it_runs(split: Any) -> None:
    """Their names are the parts that a rollback resumes."""
    procedure = split.opened()
    states = stop_flow(procedure, Step.STOP_MIRROR_MAKER, procedure.flow, 1.0, 1.0)
    assert states == dict.fromkeys((*SOURCES, "p.checkpoint"), STOPPED)
    assert set(parts_of(procedure.flow)) == set(states)
    intents = [e.payload["stops_connectors"] for e in split.entries(Step.STOP_MIRROR_MAKER) if e.kind == Entry.INTENT]
    assert intents == [list(SOURCES), ["p.checkpoint"]]


def test_a_checkpoint_connectors_worker_that_is_away_keeps_no_source_connector_running(split: Any) -> None:
    """They alone write to clients' topics; the missing answer is told."""
    split.workers["other"].away = True
    procedure = split.opened()
    with pytest.raises(ConnectUnavailable):
        stop_flow(procedure, Step.STOP_MIRROR_MAKER, procedure.flow, 1.0, 1.0)
    assert split.workers["standby"].states == dict.fromkeys(SOURCES, STOPPED)
