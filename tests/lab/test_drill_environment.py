"""What a lab has for drills: workers, clients and markers of their own, which production's flows leave alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from confluent_kafka.admin import AclPermissionType, ResourcePatternType
from kafka_dr.config.settings import check_topology
from kafka_dr.domain.mirror_maker.naming import NamingSpec, naming_of
from kafka_dr.domain.mirror_maker.patterns import group_filter_of, topic_filter_of

from lab.environment.acls import client_rights, standing_fence
from lab.environment.airflow_settings import airflow_connections
from lab.environment.bring_up import POLICIES, _new_record
from lab.environment.connect import connector_config, flow_worker, worker_properties
from lab.environment.dedicated_mirror_maker import all_settings
from lab.environment.drills.markers import MARKER
from lab.environment.drills.worker import drill_worker
from lab.environment.production.transport import create_certificates
from lab.environment.state import ALIASES, DRILL_CLIENT, Lab, drill_port
from lab.environment.topology_file import write_topology
from lab.environment.versions.choices import keep_versions

DRILL_TOPICS = (
    "switchback-drill.0123456789.orders.replica",
    "mm2-offset-syncs.switchback-drill.primary.switchback-drill.internal",
    "primary.switchback-drill.checkpoints.switchback-drill.internal",
    "standby.switchback-drill.switchback-drill.0123456789.orders.replica",
    "__connect_switchback-drill_primary_configs",
    MARKER,
)


@pytest.fixture(params=["small", "production"])
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Lab:
    """A lab of each profile that runs nothing."""
    return _opened(tmp_path, request.param)


def _opened(folder: Path, profile: str = "small", dedicated: bool = False, policy: str = "identity") -> Lab:
    lab = Lab(folder / "lab")
    lab.save(_new_record(policy, "read_uncommitted", dedicated=dedicated, profile=profile))
    if profile == "production":
        create_certificates(lab)
    return lab


def test_the_topology_names_what_drills_use(lab: Lab) -> None:
    """Worker and clients of each cluster, by connections that Airflow gets; no drill starts by itself."""
    write_topology(lab)
    drill = check_topology(yaml.safe_load(lab.topology.read_text()), "the lab's").drill
    assert drill is not None and (drill.environment, drill.scheduled) == ("lab", False)
    connections, scheme = airflow_connections(lab), "https" if lab.load().is_production else "http"
    for alias in ALIASES:
        worker, flows = connections[drill.connect[alias]], connections[f"connect_{alias}"]
        assert worker["host"] == drill_worker(lab, alias).url and worker["host"].startswith(f"{scheme}://")
        assert worker == flows | {"host": worker["host"]} and worker != flows
        assert connections[drill.clients[alias]]["extra"]["sasl.username"] == DRILL_CLIENT


@pytest.mark.parametrize("alias", ALIASES)
def test_a_drills_worker_is_like_the_flows_but_in_a_group_of_its_own(lab: Lab, alias: str) -> None:
    """Group, topics, address and certificate differ, and no two are alike; everything else is the same."""
    flow, drill = (worker_properties(lab, worker) for worker in (flow_worker(lab, alias), drill_worker(lab, alias)))
    changed = {key for key in flow if flow[key] != drill[key]}
    assert {"group.id", "listeners", *(f"{kind}.storage.topic" for kind in ("config", "offset", "status"))} <= changed
    assert all(key.startswith(("listeners", "rest.advertised.port", "group", "config", "offset", "status"))
               for key in changed)  # fmt: skip
    assert flow.keys() == drill.keys()
    for key in changed - {"listeners", "rest.advertised.port", "listeners.https.ssl.keystore.location"}:
        assert "switchback-drill" in str(drill[key]) and str(drill[key]).startswith("__")
    if lab.load().is_production:
        assert Path(str(drill["listeners.https.ssl.keystore.location"])).exists()


def test_the_pid_of_a_drills_worker_is_told(lab: Lab) -> None:
    """Beside broker and Connect; null where no such worker runs."""
    lab.processes.start("drill-standby", ["sleep", "60"], {}, lab.root)
    pids = {alias: cluster["pids"]["drill"] for alias, cluster in lab.status()["clusters"].items()}
    lab.processes.stop(0.0)
    assert pids["primary"] is None and isinstance(pids["standby"], int)
    assert lab.status()["clusters"]["standby"]["pids"]["drill"] is None


WITHOUT_WORKERS = {
    "an old worker": ({"standby": "3.7.2"}, False, True),
    "another old worker": ({"primary": "2.8.2"}, False, True),
    "dedicated mode": ({}, True, True),
    "a lab of an earlier version": ({}, False, False),
}


@pytest.mark.parametrize(("versions", "dedicated", "has_ports"), WITHOUT_WORKERS.values(), ids=WITHOUT_WORKERS)
def test_where_no_drill_can_run_none_has_a_worker(
    tmp_path: Path, versions: dict[str, str], dedicated: bool, has_ports: bool
) -> None:
    """Then the topology names the environment alone, and Airflow gets no connection for drills."""
    lab = _opened(tmp_path, dedicated=dedicated, policy="default")
    assert lab.load().has_drill_workers is not dedicated
    keep_versions(lab, {"--kafka": {}, "--connect": versions})
    if not has_ports:
        record = lab.load()
        record.ports = {name: port for name, port in record.ports.items() if name not in map(drill_port, ALIASES)}
        lab.save(record)
    assert not lab.load().has_drill_workers
    write_topology(lab)
    drill = check_topology(yaml.safe_load(lab.topology.read_text()), "the lab's").drill
    assert drill is not None and not drill.connect and not drill.clients and drill.environment == "lab"
    assert not [name for name in airflow_connections(lab) if "drill" in name]


def test_brokers_of_any_version_leave_drills_their_workers(lab: Lab) -> None:
    """Only MirrorMaker 2's version counts."""
    keep_versions(lab, {"--kafka": {"primary": "2.8.2"}, "--connect": {}})
    assert lab.load().has_drill_workers


@pytest.mark.parametrize("policy", POLICIES)
def test_clients_of_drills_have_rights_on_names_of_drills_alone(policy: str) -> None:
    """No right on the cluster or on a name without `switchback`; no standing DENY entry is against them."""
    own = [one for one in client_rights() if one.principal == f"User:{DRILL_CLIENT}"]
    assert {one.permission_type for one in own} == {AclPermissionType.ALLOW}
    assert {one.resource_pattern_type for one in own} == {ResourcePatternType.PREFIXED}
    prefixes = {kind: {one.name for one in own if one.restype.name == kind} for kind in ("TOPIC", "GROUP")}
    assert prefixes["GROUP"] == {"__switchback-drill."}
    assert all("switchback-drill." in name for name in (one.name for one in own))
    for topic in (DRILL_TOPICS[0], DRILL_TOPICS[3]):
        assert any(topic.startswith(prefix) for prefix in prefixes["TOPIC"])
    for topic in ("orders", "primary.orders", *DRILL_TOPICS[1:3], *DRILL_TOPICS[4:]):
        granted = {prefix for prefix in prefixes["TOPIC"] if topic.startswith(prefix)}
        assert not granted or "internal" in topic, topic
    fences = [one for alias in ALIASES for one in standing_fence(alias, policy)]
    assert fences and {one.principal for one in fences} == {"User:producer"}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("pair", [ALIASES, ALIASES[::-1]], ids="->".join)
def test_productions_flows_take_up_nothing_of_a_drill(tmp_path: Path, policy: str, pair: tuple[str, str]) -> None:
    """Neither topics, the drill's internal ones included, nor groups; in a worker and in dedicated mode."""
    naming = naming_of(NamingSpec(policy), ALIASES)
    for dedicated in (False, True):
        lab = _opened(tmp_path, dedicated=dedicated, policy=policy)
        settings = all_settings(lab) if dedicated else connector_config(lab, *pair, "source")
        selects = topic_filter_of(settings, naming, pair[1])
        assert [name for name in DRILL_TOPICS if selects(name)] == []
        assert selects("orders") and selects("switchback-orders")
        groups = group_filter_of(settings if dedicated else connector_config(lab, *pair, "checkpoint"))
        assert groups("billing") and not groups("__switchback-drill.0123456789.billing")
        assert not groups(drill_worker(lab, "primary").group)
