"""The rights that the page asks for are those that runs use: by the brokers' own authorizer logs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from kafka_dr.domain.doctor.rights import NEEDED, OPTIONAL, OWN_PREFIX, PROBE_OPERATIONS, NeededRight

from lab.environment.state import Lab
from lab.rehearsal.round_trip import Leaving, Returning
from lab.rehearsal.run import run_dag
from lab.rehearsal.unplanned import Accident
from tests.support.rehearsals import trips_without_findings

#: Of the lines in the file that `lab/environment/log4j2.properties` describes.
LINE = re.compile(
    r"Principal = User:(?P<principal>\S+) is (?P<result>Allowed|Denied) operation = (?P<operation>\w+) from host = \S+"
    r" on resource = (?P<resource>\w+):LITERAL:(?P<name>.*) for request = (?P<request>\w+) with"
)
#: Topics of a run on which the run gives itself the right to write, for seconds.
CANARY = "switchback-canary.replica"
Right = tuple[str, str]


def test_the_page_asks_for_what_runs_use(
    fresh_lab: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first run, which is refused; failover planned and unplanned; failback in both modes, one with a replay."""
    monkeypatch.setenv("SWITCHBACK_LAB_AUTHORIZER", "debug")
    lab = Lab(fresh_lab("identity"))
    backwards = {"source": "standby", "target": "primary", "reason": "the first run, which is refused"}
    assert run_dag(lab, "planned_failover", backwards, timeout=300) == 1
    refused_run = next(lab.evidence.glob("planned_failover-*/evidence.json"))
    evidence = json.loads(refused_run.read_text(encoding="utf-8"))
    assert (evidence["outcome"], evidence["failing_step"]) == ("refused", "check_readiness")
    trips = [
        (Leaving(more=5), Returning(more=5, born=True)),
        (
            Leaving(Accident(after=1.0), more=5, stranded=10, params={"confirm_seconds": 6}),
            Returning("recreate", {".*": "replay"}, more=5),
        ),
    ]
    trips_without_findings(lab.root, tmp_path, trips, 300, scale=0.02, groups=8)
    used, refused = rights_used(lab, "orchestrator")
    assert not refused, f"a run was refused what it asked for: {refused}"
    every, by_choice = stated(NEEDED), stated(OPTIONAL)
    assert used - every - by_choice == set(), "used, and not on the page"
    assert every - used == set(), "on the page for every procedure, and never used"
    assert rights_used(lab, "probe")[0] <= {("topic", operation) for operation in PROBE_OPERATIONS}


def rights_used(lab: Lab, principal: str) -> tuple[set[Right], set[Right]]:
    """What the principal did, and was refused, on resources other than its own topics: type and operation."""
    used: dict[str, set[Right]] = {"Allowed": set(), "Denied": set()}
    for file in lab.logs.glob("broker-*.log.rights"):
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            found = LINE.search(line)
            if found and found["principal"] == principal and not is_own(found["name"]):
                used[found["result"]].add((in_words(found["resource"]), in_words(found["operation"])))
    return used["Allowed"], used["Denied"]


def is_own(name: str) -> bool:
    """Whether a topic is Switchback's, on which its principal may do everything."""
    return name.startswith(OWN_PREFIX) or name == CANARY


def in_words(name: str) -> str:
    """`TransactionalId` as `transactional_id`; `DESCRIBE_CONFIGS` as `describe_configs`."""
    return (name if name.isupper() else re.sub(r"(?<!^)(?=[A-Z])", "_", name)).lower()


def stated(rights: Iterable[NeededRight]) -> set[Right]:
    """The rights as type and operation."""
    return {(right.resource_type, right.operation) for right in rights}
