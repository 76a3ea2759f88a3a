"""Sites of the profile `production` with other Kafka versions: TLS, an undone fence, and a planned failover, judged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from lab.environment.connect import call_worker
from lab.environment.state import Lab
from lab.rehearsal.planned import SOURCE, TARGET, Rehearsal
from tests.faults.deployment.replica_watch import ReplicaWatch
from tests.faults.support.scene import PARAMS, planned_without_findings
from tests.faults.support.stepping import Run, Stepping, stepping
from tests.faults.support.world import World
from tests.support.lab_clients import takes_only_tls
from tests.support.rehearsals import SEED, kept_if_it_fails

RATE = 500
CASES: dict[str, dict[str, dict[str, str]]] = {
    "4.3.1": {},
    "3.4.1 with ZooKeeper": {"kafka": {SOURCE: "3.4.1"}},
    "3.7.2": {"kafka": {SOURCE: "3.7.2"}, "connect": {TARGET: "3.7.2"}},
}


@pytest.mark.parametrize("versions", CASES.values(), ids=CASES)
def test_a_fence_is_undone_and_a_planned_failover_is_exact(
    versions: dict[str, dict[str, str]], fresh_lab: Callable[..., Path], tmp_path: Path
) -> None:
    """Under load; ACLs and connectors are in the end of the undone one as before; no replica falls out of sync."""
    lab = Lab(fresh_lab("identity", airflow=False, profile="production", **versions))
    _speaks_tls(lab)
    made = Rehearsal(lab.root, tmp_path / "rehearsal", SEED, RATE, scale=0.1, groups=6)
    try:
        with (
            kept_if_it_fails(lab.root, tmp_path),
            stepping(lab, tmp_path / "steps") as driver,
            ReplicaWatch(lab).watching() as watch,
        ):
            made.seed_topics()
            made.start_clients()
            made.start_load()
            _undone(lab, driver)
            planned_without_findings(made, driver)
    finally:
        made.stop()
    print(f"{watch.looks} looks at replicas, out of sync: {watch.shrunk}", flush=True)
    assert watch.looks > 0 and watch.shrunk == []


def _undone(lab: Lab, driver: Stepping) -> None:
    """Fence, drain and stop MirrorMaker 2, then return; all must be as before."""
    world, run = World(lab, []), Run(PARAMS)
    before = world.look()
    assert driver.forward(run, until="stop_mirror_maker"), run.texts
    fenced = world.look()
    assert fenced["acls"] != before["acls"] and fenced["connectors"] != before["connectors"]
    assert driver.step(run, "return_to_source") == "done", run.texts
    driver.step(run, "close_procedure")
    assert world.look() == before


def _speaks_tls(lab: Lab) -> None:
    """Every port of brokers and Connect workers; ZooKeeper, which only brokers use, has one without."""
    for cluster in lab.status()["clusters"].values():
        pids = cluster["pids"]
        for pid in (*pids["brokers"].values(), *pids["workers"].values()):
            found = [
                one.laddr for one in psutil.Process(pid).net_connections("tcp") if one.status == psutil.CONN_LISTEN
            ]
            assert found and all(takes_only_tls(address.port) for address in found), (pid, found)
        (controller,) = pids["controllers"].values()
        addresses = [one.laddr for one in psutil.Process(controller).net_connections("tcp") if not one.raddr]
        assert {address.ip for address in addresses} <= {"127.0.0.1", "::ffff:127.0.0.1"}, addresses


def test_the_oldest_version_runs(fresh_lab: Callable[..., Path]) -> None:
    """Brokers and Connect 2.8.2 at the source: `up` has seen a record mirrored by the target's worker.

    That worker is a newer one: MirrorMaker 2 of 2.8.2 copies every setting of a topic, and brokers since 4.0 refuse a
    topic with settings that are no more.
    """
    old: dict[str, Any] = {"kafka": {SOURCE: "2.8.2"}, "connect": {SOURCE: "2.8.2"}}
    lab = Lab(fresh_lab("default", airflow=False, profile="production", **old))
    _speaks_tls(lab)
    assert {call_worker(lab, SOURCE, "GET", "/", number=number).json()["version"] for number in (1, 2)} == {"2.8.2"}
