"""What of production is compared before and after a drill: what others change meanwhile is named, without secrets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka_dr.actions.drill.untouched import read_production
from kafka_dr.domain.drill.records import production_differences

from tests.support.bench import Bench
from tests.support.drills.drill_bench import drill_bench
from tests.support.json_server import JsonHandler, served

SECRET = "hunter2-of-the-jaas-line"


@pytest.fixture
def bench(make_bench: Callable[..., Bench]) -> Bench:
    """Two clusters, with workers for drills beside both."""
    made = drill_bench(make_bench)
    made.clusters["primary"].settings["orders"] = {"retention.ms": "1000"}
    return made


@pytest.fixture
def production(bench: Bench) -> Iterator[dict[str, dict[str, Any]]]:
    """The connectors of both workers of production, as Connect states them; the worker's REST API is real."""
    config = {"tasks.max": "2", "source.cluster.sasl.jaas.config": SECRET}
    found: dict[str, dict[str, Any]] = {
        "p.source": {
            "info": {"config": config},
            "status": {"tasks": [{"id": 0, "state": "RUNNING", "worker_id": "w1:8083"}]},
        }
    }

    class AllConnectors(JsonHandler):
        """Lists the connectors with their configurations."""

        def do_GET(self) -> None:  # noqa: N802 (the name that the server calls)
            """Answer as Connect does when it is asked for everything."""
            self.answer(200, found)

    with served(AllConnectors) as url:
        bench.addresses |= {"connect_primary": url, "connect_standby": url}
        yield found


def test_a_change_by_others_is_named_with_old_and_new(bench: Bench, production: dict[str, dict[str, Any]]) -> None:
    """A topic's setting, a connector's setting, a moved task, a topic that is new; each under what it is of."""
    before = read_production(bench.procedure())
    bench.clusters["primary"].settings["orders"] = {"retention.ms": "2000"}
    bench.clusters["standby"].create_topic("invoices", 1)
    bench.clusters["standby"].create_topic("switchback-drill.0123456789.orders.replica", 1)
    production["p.source"]["info"]["config"]["tasks.max"] = "3"
    production["p.source"]["status"]["tasks"][0]["worker_id"] = "w2:8083"
    changed = production_differences(before, read_production(bench.procedure()))
    assert "topics of primary: orders: retention.ms was 1000, is 2000" in changed
    assert "topics of standby: invoices is new" in changed
    assert "connectors in connect_standby: p.source: tasks.max was 2, is 3" in changed
    assert "tasks in connect_standby: p.source-0 was RUNNING on w1:8083, is RUNNING on w2:8083" in changed
    assert not [text for text in changed if "switchback-drill" in text]


def test_a_changed_login_is_noticed_and_not_shown(bench: Bench, production: dict[str, dict[str, Any]]) -> None:
    """The digest of all settings differs; no value of the login stands anywhere."""
    before = read_production(bench.procedure())
    production["p.source"]["info"]["config"]["source.cluster.sasl.jaas.config"] = "other-" + SECRET
    after = read_production(bench.procedure())
    changed = production_differences(before, after)
    assert len(changed) == 2 and all("digest of all settings" in text for text in changed)
    assert SECRET not in str((before, after, changed))
