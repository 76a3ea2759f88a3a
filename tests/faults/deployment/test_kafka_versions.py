"""Sites of other Kafka versions than the newest: what works, and what is refused by the check's name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lab.environment.connect import call_worker, connector_name
from lab.environment.state import Lab
from lab.rehearsal.planned import SOURCE, TARGET, Rehearsal
from tests.faults.support.scene import PARAMS, planned_without_findings
from tests.faults.support.stepping import Run, stepping
from tests.support.rehearsals import SEED, kept_if_it_fails

RATE = 500


@pytest.mark.parametrize(
    ("kafka", "connect"),
    [
        ({SOURCE: "3.9.2", TARGET: "3.4.1"}, {TARGET: "3.7.2"}),
        ({TARGET: "3.7.2"}, {SOURCE: "3.7.2", TARGET: "3.7.2"}),
    ],
    ids=str,
)
def test_a_planned_failover_is_exact(
    kafka: dict[str, str], connect: dict[str, str], fresh_lab: Callable[..., Path], tmp_path: Path
) -> None:
    """Also with ZooKeeper at the target, and with an older MirrorMaker 2."""
    lab = Lab(fresh_lab("identity", airflow=False, kafka=kafka, connect=connect))
    made = Rehearsal(lab.root, tmp_path / "rehearsal", SEED, RATE, scale=0.1, groups=6)
    try:
        with kept_if_it_fails(lab.root, tmp_path), stepping(lab, tmp_path / "steps") as driver:
            made.seed_topics()
            made.start_clients()
            made.start_load()
            before = forward_config(lab)
            planned_without_findings(made, driver)
            # Connect before 3.8 takes a whole configuration only: all other settings stay, passwords included.
            assert forward_config(lab) == {**before, "enabled": "false"}
    finally:
        made.stop()


def forward_config(lab: Lab) -> dict[str, str]:
    """Return the configuration of the forward flow's source connector, as Connect shows it to everybody."""
    path = f"/connectors/{connector_name(SOURCE, TARGET, 'source')}/config"
    return dict(call_worker(lab, TARGET, "GET", path).json())


@pytest.mark.parametrize(("worker", "flow"), [(TARGET, f"{SOURCE}->{TARGET}"), (SOURCE, f"{TARGET}->{SOURCE}")])
def test_a_connect_worker_that_cannot_stop_connectors_is_refused(
    worker: str, flow: str, fresh_lab: Callable[..., Path], tmp_path: Path
) -> None:
    """Connect 2.8.2 has neither STOPPED nor offsets by REST: check, flow and version stand in the refusal.

    The reverse flow's worker is needed, too: while clients are fenced.
    """
    lab = Lab(fresh_lab("default", airflow=False, connect={worker: "2.8.2"}))
    assert call_worker(lab, worker, "GET", "/").json()["version"] == "2.8.2"
    with kept_if_it_fails(lab.root, tmp_path), stepping(lab, tmp_path / "steps") as driver:
        evidence = driver.whole(Run(PARAMS))
    why = f"{evidence['outcome']} at {evidence['failing_step']}: {evidence['reason_for_outcome']}"
    print(why, flush=True)
    assert (evidence["outcome"], evidence["failing_step"]) == ("refused", "check_readiness"), why
    assert "versions_suffice" in why and flow in why and "2.8.2" in why
