"""The connectors of one flow as a whole, in one Connect worker or two."""

from __future__ import annotations

from typing import Any

import pytest
from kafka_dr.config.connectors import Connectors
from kafka_dr.config.topology import Flow
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.mirror_maker.naming import NamingSpec, naming_of
from kafka_dr.errors import DeadlinePassed
from kafka_dr.hooks.connect.connector_state import ConnectorOffsets
from kafka_dr.hooks.connect.flow_connectors import FlowConnectors

from tests.support.connect import Worker

NAMING = naming_of(NamingSpec("identity"), ("east", "west"))
ORDERS, PAYS, OTHER = (TopicPartition(topic, 0) for topic in ("orders", "pays", "other"))
FILTERS = {"a": "orders.*", "b": "pays.*", "c": "logs.*"}


class Sharing(Worker):
    """Three source connectors, each with its own filter and offsets, and a checkpoint connector."""

    def __init__(self) -> None:
        super().__init__(dict.fromkeys((*FILTERS, "cp"), "STOPPED"))
        self.kept = {name: {} for name in FILTERS}
        self.filters = dict(FILTERS)

    def config(self, name: str, **_: Any) -> dict[str, str]:
        """Return a connector's settings: its filter."""
        return {"topics": self.filters[name], "offset-syncs.topic.location": "target"}

    def offsets(self, name: str, timeout: float = 60.0) -> ConnectorOffsets:
        """Return the offsets that are stored for a connector, all of one source."""
        return ConnectorOffsets({"east": self.kept[name]})


@pytest.fixture
def worker() -> Sharing:
    """The worker of the source connectors."""
    return Sharing()


def flow_of(worker: Any, *sources: str, elsewhere: Any = None) -> FlowConnectors:
    """A flow of these source connectors; its checkpoint connector runs `elsewhere` if given."""
    flow = Flow(
        source="east",
        target="west",
        connect="w",
        connectors=Connectors(source=sources or ("a", "b", "c"), checkpoint="cp"),
    )
    return FlowConnectors(flow, NAMING, worker, elsewhere)


def test_offsets_are_those_of_the_connector_that_mirrors_the_topic(worker: Sharing) -> None:
    """What another connector mirrored before does not count; of a topic of nobody the highest does."""
    worker.kept = {"a": {ORDERS: 5, PAYS: 90}, "b": {PAYS: 7, OTHER: 1}, "c": {PAYS: None, OTHER: 3}}
    assert flow_of(worker).offsets().of("east") == {ORDERS: 5, PAYS: 7, OTHER: 3}
    worker.kept["b"] = {}
    assert PAYS not in flow_of(worker).offsets().of("east"), "it begins at the log start, whatever another one copied"


def test_each_offset_is_seeded_where_its_topic_is_mirrored(worker: Sharing) -> None:
    """Also of a topic that no connector has an offset of; of a topic of nobody in all; all is read back as one."""
    worker.kept["a"] = {TopicPartition("orders", 1): 2}
    seeds = {ORDERS: 5, PAYS: None, OTHER: 8}
    held: list[int] = []
    after = flow_of(worker).change_offsets(seeds, lambda: held.append(len(worker.offsets_set)))
    assert held == [0, 1, 2], "the right to act is checked before each connector's offsets are changed"
    assert worker.offsets_set == {"a": {ORDERS: 5, OTHER: 8}, "b": {PAYS: None, OTHER: 8}, "c": {OTHER: 8}}
    assert after.of("east") == {**seeds, TopicPartition("orders", 1): 2}


def test_a_lone_source_connector_is_seeded_whatever_its_filter(worker: Sharing) -> None:
    """Its configuration is not asked for: what it will mirror later begins there, too."""
    worker.config = None
    assert flow_of(worker, "a").change_offsets({PAYS: 4}, lambda: None).of("east") == {PAYS: 4}


def test_all_source_connectors_are_stopped_at_once(worker: Sharing) -> None:
    """One that does not stop in time is named; the others are stopped all the same."""
    worker.states, worker.late = dict.fromkeys((*FILTERS, "cp"), "RUNNING"), {"a"}
    with pytest.raises(DeadlinePassed, match="a did not stop within 3 s"):
        flow_of(worker).stop_sources(3.0)
    assert worker.states == {"a": "RUNNING", "b": "STOPPED", "c": "STOPPED", "cp": "RUNNING"}
    assert [status.name for status in flow_of(worker).not_stopped()] == ["a"]


def test_a_checkpoint_connector_elsewhere_is_asked_there(worker: Sharing) -> None:
    """By name alone; a source connector of its name on that worker is another one."""
    del worker.states["cp"], worker.states["c"]
    other = Worker({"cp": "RUNNING", "a": "RUNNING", "c": "RUNNING"})
    connectors = flow_of(worker, elsewhere=other)
    assert connectors.existing() == ("a", "b", "cp") and connectors.not_stopped() == []
    connectors.stop("cp", deadline=3.0)
    connectors.resume("a", deadline=3.0)
    assert (other.asked, worker.asked) == ([("stop", "cp")], [("resume", "a")])
    assert [names for _, names in connectors.workers] == [("a", "b", "c"), ("cp",)]


def test_a_flow_mirrors_what_any_of_its_connectors_mirrors(worker: Sharing) -> None:
    """A topic that two of them select is found, heartbeats are not."""
    worker.filters["c"] = "pays.*,logs"
    mirrors = flow_of(worker).topic_filter()
    topics = ["orders", "pays", "pays-2", "logs", "other", "heartbeats"]
    assert [topic for topic in topics if mirrors.selects(topic)] == [t for t in topics if t != "other"]
    assert flow_of(worker).connectors_with(["orders", "pays-2"]) == {"a", "b", "c"}
    assert flow_of(worker).connectors_with(["orders"]) == {"a"} == flow_of(worker, "a").connectors_with([])
    assert mirrors.mirrored_twice(topics) == {("b", "c"): ["pays", "pays-2"]}


def test_connectors_of_the_flow_that_the_topology_does_not_name_are_found() -> None:
    """By MirrorMaker 2's class and by both aliases; what another flow or another program runs is none."""
    worker = Worker(dict.fromkeys(("a", "cp", "x", "north", "file"), "RUNNING"))
    mirror = {"connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector"}
    mirror |= {"source.cluster.alias": "east", "target.cluster.alias": "west"}
    others = {"north": {"source.cluster.alias": "north"}, "file": {"connector.class": "x.FileStreamSourceConnector"}}
    worker.configs = {"a": mirror, "x": mirror, **{name: mirror | own for name, own in others.items()}}
    assert [status.name for status, _ in flow_of(worker, "a").unnamed()] == ["x"]
