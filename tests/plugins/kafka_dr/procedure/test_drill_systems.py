"""The clients of a run in a drill keep the drill's scope, however they are made."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kafka_dr.config.params import Request
from kafka_dr.config.settings import load_topology
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.own_names import OwnNames
from kafka_dr.errors import OutsideDrill, SystemUnavailable
from kafka_dr.hooks.http_tls import HttpTls
from kafka_dr.hooks.site.routing import ClientRoute
from kafka_dr.procedure.binding import BoundConnections
from kafka_dr.procedure.drill_connections import DrillConnections
from kafka_dr.procedure.systems import Systems

from tests.support.drills.scopes import DRILL_ID, NAMES, ORDERS, SOURCE, scope

ROUTE = ClientRoute("standby", "s:1")
REQUEST = Request(source="primary", target="standby", reason="drill")


class Known:
    """Connections that lead nowhere."""

    def systems(self, request: Any, topology: Any) -> Systems:
        """Return production's clients."""
        return Systems(request, topology, self)

    def kafka(self, name: str) -> dict[str, str]:
        """Return a cluster that nobody serves."""
        return {"bootstrap.servers": "127.0.0.1:9"}

    def login(self, name: str) -> tuple[str, str, str]:
        """Return a site that nobody serves."""
        return "http://127.0.0.1:9", "", ""

    def tls(self, name: str) -> HttpTls:
        """Return no certificates."""
        return HttpTls()


@pytest.fixture
def topology(make_bench: Any) -> Any:
    """A topology with every hook that a site can have."""
    hook = {"connection": "hook"}
    bench = make_bench(drain=hook, fence_hook={**hook, "spares_mirror_maker": True}, source_probe=hook)
    return load_topology(bench.topology)


@pytest.fixture
def systems(topology: Any) -> Systems:
    """The clients of a run in a drill."""
    return Systems(REQUEST, topology, Known(), scope())


JOURNAL = Path("/nowhere/journal.db")


def ways(topology: Any) -> dict[str, Systems]:
    """Return the clients of a run in a drill, by how they are made."""
    drill = DrillConnections(Known(), scope(), JOURNAL)
    made = drill.systems(REQUEST, topology)
    bound = BoundConnections(drill, SimpleNamespace(addresses={})).systems(REQUEST, topology)  # type: ignore[arg-type]
    around = DrillConnections(BoundConnections(Known(), SimpleNamespace(addresses={})), scope(), JOURNAL)  # type: ignore[arg-type]
    given = Systems(REQUEST, topology, Known(), scope())
    return {
        "made": made,
        "bound": bound,
        "around": around.systems(REQUEST, topology),
        "given": given,
        "own": given.with_own_clients(),
        "bound own": bound.with_own_clients(),
        "reversed": made.reversed(),
        "bound reversed": bound.reversed().with_own_clients().reversed(),
        "given reversed": given.reversed(),
    }


def test_the_scope_is_kept_by_every_way_to_clients(topology: Any) -> None:
    """With clients of one's own, with source and target swapped, and behind the run's binding."""
    for way, made in ways(topology).items():
        assert made.scope == scope() and made.own_names == NAMES.own, way
        for act in (
            lambda made=made: made.source.create_topic("orders", 1),
            lambda made=made: made.target.delete_groups(["app"]),
            lambda made=made: made.target.delete_positions({"app": [TopicPartition("orders", 0)]}),
            lambda made=made: made.cluster("primary").create_topic("orders", 1),
            lambda made=made: made.writer("primary").write("orders", 0, b"x"),
            lambda made=made: made.probe("primary").probe("orders", 0),
            lambda made=made: made.replay_writer("primary", "pay-1", 1_000),
            lambda made=made: made.transactions("primary").end("pay-1"),
            lambda made=made: made.connect_worker("connect_standby").stop("p.source", 0.1),
            lambda made=made: made.flow_connectors(made.topology.flows[0]).stop("p.source", 0.1),
            lambda made=made: made.marker_connector("connect_standby")._create(0.1),
            lambda made=made: made.routing.redirect(ROUTE),
        ):
            with pytest.raises(OutsideDrill):
                act()


def test_the_hooks_of_a_site_are_refused(systems: Systems) -> None:
    """They know no drill: whatever they are asked would act on production's clients. So are the journal's anchors."""
    flow = systems.topology.flows[0].model_copy(update={"stop_hook": "hook"})
    for ask in (
        lambda: systems.drain,
        lambda: systems.fence_hook,
        lambda: systems.planned_fence_hook,
        lambda: systems.stop_hook(flow),
        lambda: systems.anchor_topic("primary"),
    ):
        with pytest.raises(OutsideDrill):
            ask()
    assert systems.source_probe is not None


def test_routing_over_http_is_refused(make_bench: Any) -> None:
    """Only a file in the drill's folder is a drill's."""
    bench = make_bench(routing={"kind": "http", "connection": "hook"})
    with pytest.raises(OutsideDrill):
        _ = Systems(REQUEST, load_topology(bench.topology), Known(), scope()).routing


def test_routing_by_dns_is_refused(make_bench: Any) -> None:
    """Before the key is read."""
    answers = {"primary": "in-east.example.com", "standby": "in-west.example.com"}
    names = {"zone": "example.com", "name": "kafka.example.com", "answers": answers}
    bench = make_bench(routing={"kind": "dns", "connection": "zone", **names})
    with pytest.raises(OutsideDrill):
        _ = Systems(REQUEST, load_topology(bench.topology), Known(), scope()).routing


def test_a_drill_redirects_its_own_clients(make_bench: Any, tmp_path: Path) -> None:
    """Its topology names a record in its own folder."""
    folder = tmp_path / DRILL_ID / "private"
    folder.mkdir(parents=True)
    bench = make_bench(routing={"kind": "file", "path": str(folder / "routing.json")})
    made = Systems(REQUEST, load_topology(bench.topology), Known(), scope(folder=str(folder)))
    assert made.routing.redirect(ROUTE).changed


def test_the_canarys_connector_is_the_drills(systems: Systems) -> None:
    """Its name is in the scope; production's is production's."""
    assert systems.canary_connector("connect_standby")._path == f"/connectors/{NAMES.own.exempt_connector}"
    production = Systems(REQUEST, systems.topology, Known())
    assert production.canary_connector("connect_standby")._path == "/connectors/switchback-canary"


def test_production_has_no_scope(topology: Any) -> None:
    """Its names and its clients are as they were."""
    made = Known().systems(REQUEST, topology)
    assert made.scope is None and made.own_names == OwnNames()
    assert made.drain is not None and made.fence_hook is not None and made.anchor_topic("primary") is not None
    assert made.replay_writer("primary", "__switchback-replay-primary+standby", 1_000) is not None


def test_the_drills_names_are_let_through(systems: Systems) -> None:
    """They reach for the cluster, which nobody serves."""
    with pytest.raises(SystemUnavailable):
        systems.connect_worker("connect_standby").ask_to_stop(SOURCE, 0.1)
    with pytest.raises(SystemUnavailable):
        systems.source.create_topic(ORDERS, 1, timeout=0.1)
