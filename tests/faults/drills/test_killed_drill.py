"""A drill that is killed at any journal write, its own or that of a pass, is cleaned up without a trace."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml
from confluent_kafka.admin import AdminClient
from kafka_dr.hooks.journal.journal import Journal

from lab.environment.bring_up import up
from lab.environment.connect import call_worker
from lab.environment.state import ALIASES, Lab
from lab.environment.take_down import down
from tests.faults.support.rounds import how_many
from tests.faults.support.stepping import ROOT, Run, Stepping, product_environment
from tests.support.lab_clients import acl_filter, without_marker

PARAMS = {"source": "primary", "target": "standby", "reason": "it will be killed", "kind": "canary"}
BEFORE_PASSES = ("open_procedure", "check_readiness", "forecast", "announce_drill", "prepare_drill")
LIVES_SECONDS, GIVEN_UP_SECONDS = 900.0, 9 * 86_400.0
#: Steps of a pass after whose last journal write the drill is killed, by default; all of them with SWITCHBACK_ROUNDS.
SAMPLED = ("fence_producers", "drain_consumers", "stop_mirror_maker", "commit_groups", "open_target")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab without Airflow."""
    state = tmp_path_factory.mktemp("lab")
    try:
        up(state, airflow=False)
        made = Lab(state)
        topology = yaml.safe_load(made.topology.read_text(encoding="utf-8"))
        topology["drill"] |= {"time_to_live_seconds": LIVES_SECONDS, "records": 400}
        made.topology.write_text(yaml.safe_dump(topology), encoding="utf-8")
        yield made
    finally:
        down(state)


class Killed(Exception):
    """The process of a pass's step was killed, and with it the drill is given up."""


class Drills:
    """Drills on one lab that are killed and given up.

    Attributes:
        before: what both clusters and all workers had before the first drill.
    """

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab, self.driver = lab, Stepping(lab, folder)
        self.before = self.seen()

    def seen(self) -> dict[str, Any]:
        """Return topics, groups, ACL entries and connectors; without the topic of the journal's anchors."""
        state: dict[str, Any] = {}
        for alias in ALIASES:
            admin = AdminClient(dict(self.lab.status()["clusters"][alias]["client_properties"]["admin"]))
            state[alias] = {
                "topics": sorted({*admin.list_topics(timeout=30).topics} - {"__switchback_journal"}),
                "groups": sorted(group.group_id for group in admin.list_consumer_groups().result(30).valid),
                "acls": sorted(map(str, without_marker(admin.describe_acls(acl_filter()).result(30)))),
                "connectors": sorted(call_worker(self.lab, alias, "GET", "/connectors").json()),
                "drills": requests.get(f"{self.lab.drill_connect_url(alias)}/connectors", timeout=10).json(),
            }
        return state

    def killed_in(self, step: str, n: int) -> bool:
        """Run a drill whose step is killed after its n-th journal write; return whether there was such a write."""
        run = Run(PARAMS, dag_id="failover_drill")
        for each in BEFORE_PASSES:
            if each == step:
                return self.driver.merged(self.driver.processes(run, each, kill_at=n))["state"] == "killed"
            assert self.driver.step(run, each) == "done", run.texts
        raise AssertionError(step)

    def killed_in_pass(self, step: str, n: int) -> bool:
        """Run a drill whose first pass is killed in a step, after its n-th journal write."""
        run = Run(PARAMS, dag_id="failover_drill")
        assert self.driver.forward(run, until="prepare_drill"), run.texts

        def given_up(passed: Run) -> str:
            for each in passed.steps:
                if each == step:
                    found = self.driver.merged(self.driver.processes(passed, each, kill_at=n))
                    raise Killed(found["state"])
                assert self.driver.step(passed, each) == "done", passed.texts
            raise AssertionError(step)

        self.driver.run_triggered = given_up
        with pytest.raises(Killed) as ended:
            self.driver.step(run, "run_planned_failover")
        return str(ended.value) == "killed"

    def clean(self, later: float = LIVES_SECONDS) -> dict[str, str]:
        """Have schedule_drills clean up so many seconds from now; return drill -> what became of it."""
        command = [sys.executable, "-m", "tests.faults.drills.janitor", str(later)]
        environment = product_environment(self.lab) | self.driver.environment
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        lines = [line for line in done.stdout.splitlines() if line.startswith("ANSWERS ")]
        assert lines, done.stdout[-2_000:] + done.stderr[-4_000:]
        answers: dict[str, str] = json.loads(lines[0].removeprefix("ANSWERS "))
        return answers


@pytest.fixture(scope="module")
def drills(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drills]:
    """Drills on the lab."""
    made = Drills(lab, tmp_path_factory.mktemp("steps"))
    yield made
    made.driver.close()


def assert_nothing_left(drills: Drills, where: str) -> None:
    """Clean up; assert that both clusters are as before, and that the drill is closed and its lease free."""
    answers = drills.clean()
    assert list(answers.values()) == ["cleaned"], (where, answers)
    assert drills.seen() == drills.before, where
    journal = Journal(f"sqlite:///{drills.lab.journal}")
    lease = journal.lease("drill:primary+standby")
    assert lease is not None and lease.outcome == "failed", where
    assert drills.clean() == {}, where


def test_killed_while_it_makes_its_things(drills: Drills) -> None:
    """After each journal write of prepare_drill that follows the intent; before it nothing was made."""
    tried = 0
    for n in range(1, 20):
        if not drills.killed_in("prepare_drill", n):
            break
        answers = drills.clean()
        assert set(answers.values()) <= {"cleaned"} and drills.seen() == drills.before, (n, answers)
        tried += 1
        # A drill that had made nothing is given up; the next one needs its lease.
        given_up = drills.clean(GIVEN_UP_SECONDS)
        assert set(given_up.values()) == (set() if answers else {"closed"}), (n, given_up)
    assert tried >= 3
    # The last one was not killed: it is left with all that it made.
    assert_nothing_left(drills, "prepared")


@pytest.mark.parametrize("step", SAMPLED)
def test_killed_in_the_middle_of_a_pass(drills: Drills, step: str) -> None:
    """Its fence, its stop, its commits, its opening: all are removed with what they were set on."""
    for n in range(1, 1 + how_many(3)):
        if drills.killed_in_pass(step, n):
            assert_nothing_left(drills, f"{step} {n}")
        else:
            assert_nothing_left(drills, f"{step} whole")
            break


def test_a_procedure_takes_precedence_over_a_drill_that_holds_its_fence(drills: Drills) -> None:
    """Its first step gets the clusters at once; the drill's next step refuses, and it is cleaned up afterwards."""
    run, live = Run(PARAMS, dag_id="failover_drill"), Run({**PARAMS, "kind": None, "reason": "an incident"})
    assert drills.driver.forward(run, until="prepare_drill"), run.texts

    def overtaken(passed: Run) -> str:
        assert drills.driver.forward(passed, until="fence_producers"), passed.texts
        assert drills.driver.step(live, "open_procedure") == "done", live.texts
        raise Killed(f"{drills.driver.step(passed, 'drain_consumers')}: {passed.texts['drain_consumers']}")

    drills.driver.run_triggered = overtaken
    with pytest.raises(Killed, match="refused: A procedure takes precedence over this drill"):
        drills.driver.step(run, "run_planned_failover")
    assert all("takes precedence" in answer for answer in drills.clean().values())
    for step in ("return_to_source", "close_procedure"):
        drills.driver.step(live, step)
    assert_nothing_left(drills, "overtaken")
