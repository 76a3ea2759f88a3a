"""What refuses a drill before anything is made: the environment, the workers, production's filters, too many bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka_dr.actions.drill.refusals import (
    refuse_denied_clients,
    refuse_other_environment,
    refuse_shared_names,
    refuse_too_many_bytes,
    refuse_unfit_workers,
)
from kafka_dr.config.drill import DrillSettings
from kafka_dr.domain.kafka_model.acl import AclEntry
from kafka_dr.errors import ConnectUnavailable, KafkaUnavailable, NotReady
from kafka_dr.procedure.drill_run import installation_of
from kafka_dr.vocabulary import MARKER_CONNECTOR

from tests.support.bench import Bench
from tests.support.drills.drill_bench import DRILL, drill_bench, mark_environment
from tests.support.json_server import JsonHandler, served

SETTINGS = DrillSettings(**DRILL)
MIRROR = "org.apache.kafka.connect.mirror.Mirror"
EXCLUSION = ".*switchback-drill.*"
#: What production's flows of everything exclude by default.
BY_DEFAULT = "mm2.*\\.internal,.*\\.replica,__.*"


@pytest.fixture
def bench(make_bench: Callable[..., Bench]) -> Bench:
    """Two marked clusters, with workers for drills beside both."""
    made = drill_bench(make_bench)
    mark_environment(made, "staging")
    return made


def test_marked_clusters_are_accepted(bench: Bench) -> None:
    """Both name the environment of the topology."""
    refuse_other_environment(bench.procedure(), SETTINGS)


@pytest.mark.parametrize("alias", ["primary", "standby"])
@pytest.mark.parametrize(
    ("environments", "named"),
    [
        ((), "none"),
        (("production",), "production"),
        (("production", "staging"), "production, staging"),
        (("stagin",), "stagin"),
    ],
)
def test_another_environment_is_refused(bench: Bench, alias: str, environments: tuple[str, ...], named: str) -> None:
    """No marker, another one, or two: on either cluster. The message says which topic is missing where."""
    cluster = bench.clusters[alias]
    del cluster.partitions["__switchback_environment.staging"]
    for environment in environments:
        cluster.create_topic(f"__switchback_environment.{environment}", 1)
    with pytest.raises(NotReady, match=f"{alias} is not marked as a cluster of the environment staging") as caught:
        refuse_other_environment(bench.procedure(), SETTINGS)
    assert caught.value.seen.endswith(f": {named}")
    assert f"__switchback_environment.staging with one partition on {alias}" in caught.value.next_step


def test_an_environment_that_cannot_be_read_is_no_environment(bench: Bench) -> None:
    """A cluster that does not answer refuses the drill."""
    bench.clusters["standby"].away = True
    with pytest.raises(KafkaUnavailable):
        refuse_other_environment(bench.procedure(), SETTINGS)


def test_workers_of_their_own_are_accepted(bench: Bench) -> None:
    """From Connect 4.0 on."""
    bench.workers["drill_primary"].version = "4.0.0"
    refuse_unfit_workers(bench.procedure(), SETTINGS)


def what_is_unfit(bench: Bench, **settings: Any) -> str:
    """Return what the refusal has seen; the check changes nothing."""
    asked = {name: list(worker.asked) for name, worker in bench.workers.items()}
    with pytest.raises(NotReady, match="a Connect worker group of its own beside each cluster") as caught:
        refuse_unfit_workers(bench.procedure(), DrillSettings(**DRILL | settings))
    assert asked == {name: worker.asked for name, worker in bench.workers.items()}
    return caught.value.seen


@pytest.mark.parametrize(("alias", "named"), [("primary", "s.checkpoint"), ("standby", "p.checkpoint")])
def test_another_worker_of_productions_group_is_refused(bench: Bench, alias: str, named: str) -> None:
    """At whatever address: it lists what production's worker lists, and each new connector moves production's tasks."""
    bench.workers[f"drill_{alias}"].states = bench.workers[alias].states
    assert what_is_unfit(bench) == (
        f"connect_drill_{alias} and connect_{alias} are workers of one Connect cluster: both list {named}"
    )


def test_productions_group_without_connectors_is_known_by_its_marker(bench: Bench) -> None:
    """The watcher keeps a marker in each worker group of production."""
    for name in ("standby", "drill_standby"):
        bench.workers[name].states = {MARKER_CONNECTOR: "STOPPED"}
    assert MARKER_CONNECTOR in what_is_unfit(bench) and "connect_standby" in what_is_unfit(bench)


@pytest.mark.parametrize("alias", ["primary", "standby"])
def test_a_worker_with_other_connectors_is_refused(bench: Bench, alias: str) -> None:
    """Whoever they belong to: also another site's copies of production's connectors."""
    bench.workers[f"drill_{alias}"].states = {"sink": "RUNNING", "switchback-drill.0123456789.x": "STOPPED"}
    assert what_is_unfit(bench) == f"connect_drill_{alias} has connectors that no drill has made: sink"


def test_what_a_killed_drill_has_left_is_no_reason(bench: Bench) -> None:
    """schedule_drills removes it."""
    bench.workers["drill_standby"].states = {"switchback-drill.0123456789.primary-standby.source": "RUNNING"}
    refuse_unfit_workers(bench.procedure(), SETTINGS)


@pytest.mark.parametrize("alias", ["primary", "standby"])
def test_one_worker_beside_both_clusters_is_refused(bench: Bench, alias: str) -> None:
    """A Connect cluster has one Kafka cluster: what the drill copies would arrive there, whichever way it goes."""
    other, name = {"primary": "standby", "standby": "primary"}[alias], f"connect_drill_{alias}"
    seen = what_is_unfit(bench, connect={"primary": name, "standby": name})
    assert seen == f"{name} keeps its topics in the Kafka cluster id-{alias}; {other} is id-{other}"


def test_a_worker_that_names_no_cluster_is_refused(bench: Bench) -> None:
    """What is unknown is not taken for good."""
    bench.workers["drill_primary"].kafka_cluster_id = ""
    assert "the Kafka cluster unknown; primary is id-primary" in what_is_unfit(bench)


@pytest.mark.parametrize("alias", ["primary", "standby"])
@pytest.mark.parametrize("version", ["3.9.2", "2.8.2", "unknown", ""])
def test_an_old_worker_is_refused(bench: Bench, alias: str, version: str) -> None:
    """Before 4.0 every source connector mirrors heartbeats; a version that cannot be read counts as old."""
    bench.workers[f"drill_{alias}"].version = version
    with pytest.raises(NotReady, match="a Connect worker group of its own beside each cluster") as caught:
        refuse_unfit_workers(bench.procedure(), SETTINGS)
    assert f"connect_drill_{alias} runs Connect {version}" in caught.value.seen and "4.0" in caught.value.seen


def test_a_worker_that_is_away_refuses(bench: Bench) -> None:
    """What is unknown is not taken for good."""
    bench.workers["drill_standby"].away = True
    with pytest.raises(ConnectUnavailable):
        refuse_unfit_workers(bench.procedure(), SETTINGS)


@pytest.mark.parametrize(
    ("records", "most_bytes", "refused"),
    [
        (5_000, 1_000_000_000, False),
        (100, 1_000_000, False),
        (10_000_000, 1_000_000_000, True),
        (5_000, 1_000_000, True),
    ],
)
def test_a_drill_writes_no_more_than_the_topology_allows(records: int, most_bytes: int, refused: bool) -> None:
    """The message has both figures, and says which setting is to be changed."""
    settings = DrillSettings(**DRILL | {"records": records, "most_bytes": most_bytes})
    if not refused:
        refuse_too_many_bytes(settings)
        return
    with pytest.raises(NotReady, match="would write more bytes than the topology allows") as caught:
        refuse_too_many_bytes(settings)
    assert str(records) in caught.value.seen and str(most_bytes) in caught.value.seen
    assert "drill.records" in caught.value.next_step and "drill.most_bytes" in caught.value.next_step


@pytest.fixture
def production(bench: Bench) -> Iterator[dict[str, dict[str, str]]]:
    """The connectors of both workers of production, by name; the worker's REST API is real."""
    configs: dict[str, dict[str, str]] = {}

    class AllConnectors(JsonHandler):
        """Lists the connectors with their configurations."""

        def do_GET(self) -> None:  # noqa: N802 (the name that the server calls)
            """Answer as Connect does when it is asked for everything."""
            self.answer(200, {name: {"info": {"config": c}, "status": {"tasks": []}} for name, c in configs.items()})

    with served(AllConnectors) as url:
        bench.addresses |= {"connect_primary": url, "connect_standby": url}
        yield configs


def mirrors(kind: str, **settings: str) -> dict[str, str]:
    """Return the configuration of a connector of MirrorMaker 2 from primary to standby."""
    ends = {"source.cluster.alias": "primary", "target.cluster.alias": "standby"}
    identity = {"replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"}
    return {"connector.class": f"{MIRROR}{kind}Connector", **ends, **identity, **settings}


def check_names(bench: Bench) -> None:
    """Check production's connectors, as open_procedure does."""
    drill = bench.procedure()
    refuse_shared_names(drill, installation_of(drill))


def test_flows_that_exclude_drills_are_accepted(bench: Bench, production: dict[str, dict[str, str]]) -> None:
    """Also a sink of literal topics, and Switchback's own marker."""
    production |= {
        "p.source": mirrors("Source", topics=".*", **{"topics.exclude": f"{BY_DEFAULT},{EXCLUSION}"}),
        "p.checkpoint": mirrors("Checkpoint", groups=".*"),
        "sink": {"connector.class": "com.example.Sink", "topics": "orders"},
        MARKER_CONNECTOR: mirrors("Source", topics=".*"),
    }
    check_names(bench)


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("p.source", mirrors("Source", topics=".*", **{"topics.exclude": BY_DEFAULT})),
        ("p.source", mirrors("Source", topics=".*", **{"topics.exclude": "__.*"})),
        ("p.checkpoint", mirrors("Checkpoint", groups=".*", **{"groups.exclude": "console-.*"})),
        ("sink", {"connector.class": "com.example.Sink", "topics.regex": ".*"}),
    ],
    ids=["internal topics", "topics", "groups", "sink"],
)
def test_a_connector_that_would_take_up_a_drill_is_named(
    bench: Bench, production: dict[str, dict[str, str]], name: str, config: dict[str, str]
) -> None:
    """With its worker, and the first name that it would take up; the message has the exclusion to add."""
    production |= {
        name: config,
        "fine": mirrors("Source", topics=".*", **{"topics.exclude": f"{BY_DEFAULT},{EXCLUSION}"}),
    }
    with pytest.raises(NotReady, match="Production's replication would take up what the drill makes") as caught:
        check_names(bench)
    assert f"{name} in connect_standby would take up" in caught.value.seen and "fine" not in caught.value.seen
    assert "switchback-drill" in caught.value.seen and EXCLUSION in caught.value.next_step


def test_production_that_cannot_be_read_refuses(bench: Bench) -> None:
    """What its connectors would take up is unknown then."""

    class Forbidding(JsonHandler):
        """Lets nobody read."""

        def do_GET(self) -> None:  # noqa: N802 (the name that the server calls)
            """Refuse."""
            self.answer(403, {"message": "forbidden"})

    with served(Forbidding) as url:
        bench.addresses |= {"connect_primary": url, "connect_standby": url}
        with pytest.raises(ConnectUnavailable, match="403"):
            check_names(bench)


@pytest.mark.parametrize("alias", ["primary", "standby"])
@pytest.mark.parametrize(
    ("entry", "refused"),
    [
        (("topic", "*", "literal", "User:*", "*", "write", "deny"), True),
        (("topic", "switchback-drill.", "prefixed", "User:switchback-drill", "*", "read", "deny"), True),
        (("group", "__switchback", "prefixed", "User:*", "*", "all", "deny"), True),
        (("topic", "*", "literal", "User:orders-app", "*", "write", "deny"), False),
        (("topic", "orders", "prefixed", "User:*", "*", "write", "deny"), False),
        (("topic", "*", "literal", "User:*", "*", "create", "deny"), False),
        (("topic", "*", "literal", "User:*", "*", "write", "allow"), False),
        (("cluster", "kafka-cluster", "literal", "User:*", "*", "describe", "deny"), False),
    ],
)
def test_a_drill_whose_clients_are_denied_their_work_is_refused(
    bench: Bench, alias: str, entry: tuple[str, ...], refused: bool
) -> None:
    """By an entry on any of its names, on either cluster; entries on others' names or principals refuse nothing."""
    bench.clusters[alias].acls |= {AclEntry(*entry)}
    procedure = bench.procedure()
    private = installation_of(procedure)
    if not refused:
        refuse_denied_clients(procedure, private)
        return
    with pytest.raises(NotReady, match="deny the drill's clients what they do") as caught:
        refuse_denied_clients(procedure, private)
    assert caught.value.seen == f"on {alias}: {AclEntry(*entry)}"
