"""The source's addresses swallow every connection: nothing waits beyond its deadline, forward or back."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from kafka_dr.domain.evidence.evidence import GATES
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.hooks.site.drain import ApplicationDrain
from kafka_dr.vocabulary import Entry, Step

from lab.environment.state import Lab
from lab.rehearsal.unplanned import Accident, LostSourceRehearsal
from tests.faults.support.black_hole import black_holed, source_ports
from tests.faults.support.lost_scene import DEADLINES, figures_of, lost_scene, quicken, sights
from tests.support.rehearsals import SEED

#: Deadline of a Spark job in these labs; by default it is half an hour, within which nothing would be late.
SPARK_SECONDS = 60.0
#: How long past its deadline a step may still take to say so: a process that starts, two cores, a request on its way.
SLACK_SECONDS = 5.0
#: `fence_source` waits so long for an answer of the source.
ANSWER_SECONDS = 5.0
#: `redirect_clients` waits for the drain hook's answer; the routing record is a file.
DRAIN_HOOK_SECONDS = inspect.signature(ApplicationDrain.tell_to_resume).parameters["timeout"].default
#: These two ask the journal alone.
AT_ONCE = 0.0


def overdue(lab: Lab, evidence: dict[str, Any]) -> list[str]:
    """Steps that lasted too long, except the gates, which wait for people, and the watch, which goes on."""
    deadlines = evidence["plan"]["deadlines"]
    longest = {
        "open_procedure": AT_ONCE,
        "confirm_source_lost": deadlines["confirm_seconds"] + 1.5 * deadlines["slow_seconds"],
        "assess_data_loss": deadlines["spark_seconds"],
        "fence_source": ANSWER_SECONDS,
        "stop_mirror_maker": deadlines["stop_seconds"],
        "translate_offsets": deadlines["spark_seconds"],
        "commit_groups": deadlines["stop_seconds"],
        "open_target": deadlines["stop_seconds"],
        "redirect_clients": DRAIN_HOOK_SECONDS,
        "verify_clients": deadlines["verify_seconds"],
        "return_to_source": deadlines["return_seconds"],
        "close_procedure": AT_ONCE,
    }
    took = {row["id"]: seconds_between(row["started_at"], row["ended_at"]) for row in evidence["steps"]} | {
        "close_procedure": closing_seconds(lab, evidence)
    }
    print({step: round(seconds, 1) for step, seconds in took.items()}, evidence["seconds"], flush=True)
    timed = {step: seconds for step, seconds in took.items() if step not in (*GATES, Step.WATCH_OLD_SOURCE)}
    assert timed.keys() <= longest.keys(), f"without a deadline: {timed.keys() - longest.keys()}"
    return [
        f"{step} took {seconds:.1f} s, at most {longest[step]:.1f}"
        for step, seconds in timed.items()
        if seconds > longest[step] + SLACK_SECONDS
    ]


def seconds_between(start: str, end: str) -> float:
    """Between two ISO 8601 times."""
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()


def closing_seconds(lab: Lab, evidence: dict[str, Any]) -> float:
    """How long the last step took: the evidence is written by it, and cannot tell."""
    journal, procedure = Journal(f"sqlite:///{lab.journal}"), evidence["procedure_id"]
    begun, closed = (journal.last(procedure, Step.CLOSE_PROCEDURE, kind) for kind in (Entry.INTENT, Entry.CLOSED))
    return (closed.at - begun.at).total_seconds()


def give_spark(lab: Lab, seconds: float) -> None:
    """Give a Spark job less time than by default."""
    topology = yaml.safe_load(lab.topology.read_text())
    lab.topology.write_text(yaml.safe_dump(topology | {"deadlines": {"spark_seconds": seconds}}, sort_keys=False))


@pytest.mark.parametrize("policy", ["identity", "default"])
def test_ten_groups_go_on_in_time(policy: str, fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """Ten groups, each step within its deadline, with no view of the source; `make bench` (i) bounds the own time."""
    rehearsal = LostSourceRehearsal(fresh_lab(policy), tmp_path, SEED, 2_000, scale=0.1, groups=6)
    give_spark(rehearsal.lab, SPARK_SECONDS)
    try:
        rehearsal.seed_topics()
        rehearsal.start_clients()
        rehearsal.lose_source(Accident(after=2.0))
        with black_holed(source_ports(rehearsal.lab)):
            verdict = rehearsal.conclude("approver")
    finally:
        rehearsal.stop()
    _, evidence = rehearsal.evidence()
    assert verdict.passed, "\n".join(verdict.lines(limit=5))
    assert len(evidence["plan"]["groups"]) >= 10
    assert overdue(rehearsal.lab, evidence) == []
    assert sights(evidence) == {view: {"gone"} for view in ("here", "connect", "application")}


@pytest.mark.parametrize("until", ["approve_data_loss", "fence_source", "commit_groups"])
def test_the_way_back_waits_for_nobody(until: str, fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """Nothing was changed on the source: the run ends by its deadline, and says what it left stopped."""
    with lost_scene(fresh_lab("identity", airflow=False), tmp_path, clients=False) as scene:
        quicken(scene.lab, spark_seconds=SPARK_SECONDS)
        scene.put_under_load()
        scene.rehearsal.kill_source()
        with black_holed(source_ports(scene.lab)):
            run = scene.run()
            assert scene.driver.forward(run, until=until), run.texts
            evidence = scene.give_back(run)
    assert evidence["outcome"] == ("refused" if until == "approve_data_loss" else "returned"), evidence[
        "reason_for_outcome"
    ]
    assert evidence["plan"]["deadlines"]["return_seconds"] == DEADLINES["return_seconds"]
    assert overdue(scene.lab, evidence) == []
    if until == "commit_groups":
        back = figures_of(evidence, "return_to_source")
        assert back.get("connectors_resumed") or back["replication_left_stopped"]
