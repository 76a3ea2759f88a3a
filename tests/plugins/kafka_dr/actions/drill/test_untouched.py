"""What a drill compares of production before and after itself, and that each change of it is seen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka_dr.actions.drill.untouched import read_production
from kafka_dr.domain.drill.records import production_differences

from tests.support.bench import Bench
from tests.support.drills.drill_bench import drill_bench
from tests.support.json_server import JsonHandler, served

TASK = {"id": 0, "state": "RUNNING", "worker_id": "w1:8083"}


@pytest.fixture
def connector() -> dict[str, Any]:
    """The only connector in both workers of production."""
    return {"info": {"config": {"topics": ".*"}}, "status": {"tasks": [dict(TASK)]}}


@pytest.fixture
def bench(make_bench: Callable[..., Bench], connector: dict[str, Any]) -> Iterator[Bench]:
    """A drill beside production, whose workers have a real REST API."""
    made = drill_bench(make_bench)

    class OneConnector(JsonHandler):
        """Answers requests for all connectors."""

        def do_GET(self) -> None:  # noqa: N802 (the name that the server calls)
            """Answer as Connect does when it is asked for everything."""
            self.answer(200, {"source": connector})

    with served(OneConnector) as url:
        made.addresses |= {"connect_primary": url, "connect_standby": url}
        yield made


def changes(bench: Bench, change: Callable[[], object]) -> list[str]:
    """Return what a drill would report if this happened while it ran."""
    before = read_production(bench.procedure())
    assert production_differences(before, read_production(bench.procedure())) == []
    change()
    return production_differences(before, read_production(bench.procedure()))


def test_a_topic_that_was_made_again_is_seen(bench: Bench) -> None:
    """Its name, partitions and settings are as before; its id is another one."""
    cluster = bench.clusters["primary"]
    (text,) = changes(bench, lambda: cluster.topic_ids.update(orders="another"))
    assert text.startswith("topics of primary: orders was id id-orders, ") and "is id another" in text


def test_a_partition_more_is_seen(bench: Bench) -> None:
    """And a topic that is gone, or new."""
    cluster = bench.clusters["standby"]
    cluster.create_topic("payments", 2)
    (text,) = changes(bench, lambda: cluster.partitions["payments"].update({2: 1}))
    assert "payments was" in text and "2 partitions" in text and "3 partitions" in text
    (text,) = changes(bench, lambda: cluster.delete_topics(["payments"]))
    assert text == "topics of standby: payments is gone"
    (text,) = changes(bench, lambda: cluster.create_topic("refunds", 1))
    assert text == "topics of standby: refunds is new"


def test_names_of_drills_are_no_part_of_production(bench: Bench) -> None:
    """Those of another drill, which may end meanwhile, included."""
    cluster = bench.clusters["primary"]
    assert changes(bench, lambda: cluster.create_topic("switchback-drill.0123456789.orders.replica", 1)) == []


def test_a_task_that_moved_is_seen(bench: Bench, connector: dict[str, Any]) -> None:
    """In the worker of either flow; and a configuration that differs, of which no value is shown."""
    (task,) = connector["status"]["tasks"]
    texts = changes(bench, lambda: task.update(worker_id="w2:8083"))
    assert texts and all("RUNNING on w1:8083, is RUNNING on w2:8083" in text for text in texts)
    texts = changes(bench, lambda: connector["info"]["config"].update(password="a-secret"))
    assert texts and not any("a-secret" in text for text in texts)
