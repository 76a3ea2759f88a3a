"""The layouts of a lab: clusters, flows, fences, and combinations that do not exist."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka.admin import AclPermissionType
from kafka_dr.config.settings import check_topology

from lab.__main__ import main
from lab.environment.acls import standing_fence
from lab.environment.airflow_settings import airflow_connections
from lab.environment.bring_up import _new_record, _open
from lab.environment.connect import connector_config
from lab.environment.layout.flows import ACTIVE_ACTIVE, AGGREGATION, LAYOUTS, PAIR, choose_policy
from lab.environment.state import Lab
from lab.environment.topology_file import write_topology
from lab.errors import LabError


@pytest.fixture(params=LAYOUTS)
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Lab:
    """A lab of each layout that has been opened but runs nothing."""
    lab = Lab(tmp_path / "state")
    lab.save(_new_record(choose_policy(request.param, None) or "identity", "read_uncommitted", clusters=request.param))
    return lab


def test_the_product_accepts_the_topology_of_each_layout(lab: Lab) -> None:
    """Every connection is one of the lab's, and the graph has the pattern that the layout is called by."""
    write_topology(lab)
    data, record = yaml.safe_load(lab.topology.read_text()), lab.load()
    topology = check_topology(data, "topology.yaml")
    assert set(topology.clusters) == set(record.aliases) == set(lab.status()["clusters"])
    patterns = [pattern for pattern, _ in topology.graph.patterns()]
    assert ("active-passive" if record.clusters == PAIR else record.clusters) in patterns
    named = {flow.worker for flow in topology.flows} | {cluster.connection for cluster in topology.clusters.values()}
    assert named <= set(airflow_connections(lab))
    assert all((flow.runs == "always") is (record.clusters == ACTIVE_ACTIVE) for flow in topology.flows)


def test_ports_and_cluster_ids_are_of_all_clusters(lab: Lab) -> None:
    """The third cluster has a broker, a controller and a Connect worker of its own."""
    record = lab.load()
    assert set(record.cluster_ids) == set(record.aliases)
    assert {f"{kind}_{alias}" for kind in ("controller", "connect") for alias in record.aliases} <= set(record.ports)
    assert len(set(record.ports.values())) == len(record.ports)


@pytest.mark.parametrize(
    ("clusters", "fences"),
    [
        (PAIR, {"primary": ["standby."], "standby": ["*", "primary."]}),
        (ACTIVE_ACTIVE, {"primary": ["standby."], "standby": ["primary."]}),
        (AGGREGATION, {"primary": ["standby."], "standby": ["*", "primary.", "third."], "third": ["standby."]}),
    ],
)
def test_clients_are_kept_from_copies_and_from_a_standby(clusters: str, fences: dict[str, list[str]]) -> None:
    """Both clusters of an active-active pair take clients' writes to their own topics."""
    for alias, names in fences.items():
        entries = standing_fence(alias, "default", LAYOUTS[clusters])
        assert [entry.name for entry in entries] == names
        assert all(entry.permission_type is AclPermissionType.DENY for entry in entries)


def test_heartbeats_of_flows_that_usually_run_are_mirrored(lab: Lab) -> None:
    """By a mirrored heartbeat the product sees that a flow lives."""
    for flow in lab.load().layout.flows:
        config = connector_config(lab, flow.source, flow.target, "source")
        assert ("heartbeats.replication.enabled" not in config) is flow.runs


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--policy", "identity"], "needs default naming"),
        (["--profile", "production"], "without profile only"),
        (["--logins", "oidc"], "without logins only"),
        (["--kafka", "primary=3.9.2"], "without older versions only"),
    ],
)
@pytest.mark.parametrize("clusters", [ACTIVE_ACTIVE, AGGREGATION])
def test_combinations_that_do_not_exist_are_refused_by_name(
    clusters: str, options: list[str], text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is started or written."""
    state = tmp_path / "state"
    assert main(["up", "--no-airflow", "--clusters", clusters, "--state", str(state), *options]) == 1
    error = capsys.readouterr().err
    assert f"--clusters {clusters}" in error and text in error and not Lab(state).exists()


@pytest.mark.parametrize(
    ("asked", "refused"), [(None, False), (ACTIVE_ACTIVE, False), (PAIR, True), (AGGREGATION, True)]
)
def test_a_running_lab_keeps_its_layout(asked: str | None, refused: bool, tmp_path: Path) -> None:
    """Without the option the layout is the lab's own; another one is refused."""
    lab = Lab(tmp_path)
    given: dict[str, Any] = {"isolation": None, "airflow": False}
    _open(lab, policy="default", clusters=ACTIVE_ACTIVE, **given)
    try:
        _open(lab, policy=None, clusters=asked, **given)
    except LabError as error:
        assert refused and "created with --clusters: active-active" in str(error)
    else:
        assert not refused and lab.load().clusters == ACTIVE_ACTIVE
