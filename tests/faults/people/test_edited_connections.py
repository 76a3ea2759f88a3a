"""Somebody edits a connection in Airflow's own database between the approval and a step: the step refuses.

On this lab the environment has the connections of the journal and of Airflow's API alone. All others stand in Airflow's
database, where the operator may edit them. An edit leads to a system that answers, with the login that is right there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.vocabulary import Entry

from lab.environment import airflow_settings
from lab.environment.bring_up import up
from lab.environment.state import Lab
from lab.environment.take_down import down
from tests.faults.support.attacked_run import (
    DAG_ID,
    AttackedLab,
    AttackedRun,
    User,
    awaited,
    frozen_scheduler,
    seed,
    settles,
    world,
)
from tests.faults.support.stepping import STEPS

pytestmark = pytest.mark.usefixtures("nothing_left")
OUTSIDE = ("airflow_api", "kafka_dr_journal")
EVIL = {"bootstrap.servers": "evil.example:9092"}
all_connections: Callable[[Lab], dict[str, dict[str, Any]]] = airflow_settings.airflow_connections


def in_database(lab: Lab) -> dict[str, dict[str, Any]]:
    """Return the connections that stand in Airflow's database, in the form of its API."""
    return {
        name: {"connection_id": name, **connection, "extra": json.dumps(connection.get("extra", {}))}
        for name, connection in all_connections(lab).items()
        if name not in OUTSIDE
    }


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AttackedLab]:
    """A lab with one topic of a hundred records and one group half-way through it."""
    lab = AttackedLab(tmp_path_factory.mktemp("lab"))
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                airflow_settings,
                "airflow_connections",
                lambda lab: {name: all_connections(lab)[name] for name in OUTSIDE},
            )
            up(lab.root)
        for connection in in_database(lab).values():
            User.of(lab, "operator").send("POST", "/connections", connection)
        seed(lab)
        yield lab
    finally:
        down(lab.root)


def other_cluster(lab: AttackedLab, name: str) -> dict[str, Any]:
    """Return a cluster's connection that leads to the other cluster."""
    connections = in_database(lab)
    swapped = name.replace("primary", "*").replace("standby", "primary").replace("*", "standby")
    return connections[name] | {key: connections[swapped][key] for key in ("extra", "host") if key in connections[name]}


def other_spark(lab: AttackedLab, name: str) -> dict[str, Any]:
    """Return Spark's connection with another master."""
    return in_database(lab)[name] | {"host": "local[1]"}


EDITS: tuple[tuple[str, str, Callable[[AttackedLab, str], dict[str, Any]]], ...] = (
    ("fence_producers", "kafka_primary", other_cluster),
    ("stop_mirror_maker", "connect_standby", other_cluster),
    ("translate_offsets", "spark_default", other_spark),
    ("commit_groups", "kafka_standby", other_cluster),
    ("open_target", "kafka_standby_probe", other_cluster),
)


@contextmanager
def edited(lab: AttackedLab, run: AttackedRun, step: str, name: str, connection: dict[str, Any]) -> Iterator[None]:
    """Edit a connection after the step before `step` has ended and before `step` begins; put it back at the end."""
    journal, before = Journal(f"sqlite:///{lab.journal}"), STEPS[DAG_ID][STEPS[DAG_ID].index(step) - 1]
    path, operator = f"/connections/{name}", User.of(lab, "operator")
    awaited(lambda: journal.last(run.id, before, Entry.INTENT), f"{before} begun", 120)
    with frozen_scheduler(lab):
        awaited(lambda: journal.last(run.id, before, Entry.OUTCOME), f"{before} done", 60)
        assert journal.last(run.id, step, Entry.INTENT) is None
        operator.send("PATCH", path, connection)
    try:
        yield
    finally:
        operator.send("PATCH", path, in_database(lab)[name])


def failures(evidence: dict[str, Any], step: str) -> str:
    """Why a step failed, each time."""
    return str([row["failures"] for row in evidence["steps"] if row["id"] == step])


@pytest.mark.parametrize(("step", "name", "edit"), EDITS, ids=[f"{step}-{name}" for step, name, _ in EDITS])
def test_a_step_refuses_a_connection_edited_after_the_approval(
    lab: AttackedLab, step: str, name: str, edit: Callable[[AttackedLab, str], dict[str, Any]]
) -> None:
    """The evidence names the connection; once it is put back, clients get their source back as it was.

    Before fence_producers nothing was touched. Positions that commit_groups had committed stay on the target.
    """
    expected = world(lab)
    if step == "open_target":
        expected["standby"]["positions"] = expected["primary"]["positions"]
    run = AttackedRun.start(lab)
    run.answered("approver")
    with edited(lab, run, step, name, edit(lab, name)):
        run.until(step, "failed")
        journal = Journal(f"sqlite:///{lab.journal}")
        assert journal.last(run.id, step, Entry.INTENT) is None
    evidence = run.ended()
    settles(lab, expected)
    outcome = "refused" if step == "fence_producers" else "returned"
    assert evidence["outcome"] == outcome, evidence["reason_for_outcome"]
    assert "The run began with another topology, address or cluster" in failures(evidence, step)
    assert f"connection {name}: " in failures(evidence, step)


def test_no_client_is_sent_where_an_edited_connection_leads(lab: AttackedLab) -> None:
    """After the opening, the last test here: put back and cleared, the step sends clients to the approved cluster."""
    evil = in_database(lab)["kafka_standby"]
    extra = json.loads(evil["extra"])
    run = AttackedRun.start(lab)
    run.answered("approver")
    before = world(lab)["routing"]
    with edited(lab, run, "redirect_clients", "kafka_standby", evil | {"extra": json.dumps(extra | EVIL)}):
        run.until("redirect_clients", "failed")
        assert world(lab)["routing"] == before
    run.ended()
    run.clear("redirect_clients", downstream=True)
    awaited(lambda: lab.bootstrap_servers("standby") in world(lab)["routing"], "clients redirected", 120)
    awaited(lambda: run.user("viewer").run(DAG_ID, run.run_id)["state"] in ("success", "failed"), "end", 240)
    evidence = run.ended()
    assert "kafka_standby: evil.example:9092" in failures(evidence, "redirect_clients")
    assert "evil.example" not in world(lab)["routing"]
