"""What must hold although a connection was edited, a record was forged, or the journal lost entries."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowNotFoundException
from kafka_dr.commands.accept_journal import accept_journal
from kafka_dr.commands.without_airflow.private_airflow import exported_connections
from kafka_dr.config.settings import Request, load_topology
from kafka_dr.connections import Connections
from kafka_dr.domain.anchors import Anchor
from kafka_dr.errors import BadInput, BindingBroken, SwitchbackError
from kafka_dr.hooks.signing import make_key
from kafka_dr.procedure.binding import BoundConnections, address_of_login
from kafka_dr.procedure.entries import Binding, StepRefused
from kafka_dr.procedure.run import Identity, Run
from kafka_dr.steps.base import ProcedureStep
from kafka_dr.steps.shared.close_procedure import CloseProcedure
from kafka_dr.steps.shared.open_procedure import OpenProcedure
from kafka_dr.steps.shared.return_to_source import ReturnToSource
from kafka_dr.vocabulary import Entry, Step

from tests.support.bench import Bench


class Acting(ProcedureStep):
    """A step that counts its acts."""

    acted = 0

    def act(self, procedure: Any, context: Any) -> Any:
        type(self).acted += 1
        raise BadInput("acted")


def act(bench: Bench, run_id: str = "r1") -> None:
    """Run the step, which ends with an error in any case."""
    Acting(task_id=Step.CHECK_READINESS.value).execute(bench.context(run_id))


@pytest.fixture
def bench(make_bench: Callable[..., Bench]) -> Bench:
    """A planned failover that was opened."""
    made = make_bench()
    Acting.acted = 0
    OpenProcedure(task_id=Step.OPEN_PROCEDURE.value).execute(made.context())
    return made


def database(bench: Bench) -> Any:
    """The journal's database, with full rights."""
    return closing(sqlite3.connect(bench.folder / "journal.db", isolation_level=None))


def accepting(bench: Bench) -> Run:
    """The run under which a person accepts the journal."""
    request = Request(source="primary", target="standby", reason="accept the journal")
    systems = bench.connections.systems(request, load_topology(bench.topology))
    return Run(Identity("accept_journal", "1"), request, bench.journal, systems)


@pytest.mark.parametrize("edit", ["extra", "sasl"])
def test_an_edited_http_connection_is_seen(monkeypatch: pytest.MonkeyPatch, edit: str) -> None:
    """Address and login are those that are used: an extra of the connection cannot pretend others."""
    monkeypatch.setenv(
        "AIRFLOW_CONN_FENCE", json.dumps({"conn_type": "http", "host": "http://good:8080", "login": "switchback"})
    )
    addresses = {"fence": address_of_login(Connections().login("fence"))}
    began_with = Binding(clusters={}, topology_digest="", addresses=addresses)
    assert BoundConnections(Connections(), began_with).login("fence")[0] == "http://good:8080"
    changed: dict[str, Any] = {"conn_type": "http", "host": "http://evil:8080", "login": "switchback"}
    if edit == "extra":
        changed["extra"] = json.dumps({"bootstrap.servers": "http://good:8080"})
    else:
        changed |= {"host": "http://good:8080", "login": "other", "extra": json.dumps({"sasl.username": "switchback"})}
    monkeypatch.setenv("AIRFLOW_CONN_FENCE", json.dumps(changed))
    with pytest.raises(BindingBroken):
        BoundConnections(Connections(), began_with).login("fence")


def test_an_edited_kafka_connection_is_in_the_journal(bench: Bench) -> None:
    """As a refusal of the step, so that the evidence names it."""
    bench.addresses.update(kafka_standby="evil:9092")
    with pytest.raises(AirflowFailException, match="began with"):
        act(bench)
    assert bench.procedure().progress.facts(StepRefused, Step.CHECK_READINESS), "the journal does not name it"


def test_return_to_source_waits_for_an_edited_kafka_connection(make_bench: Callable[..., Bench]) -> None:
    """Until the edit is taken back, or for `return_seconds`; the message names the edit."""
    bench = make_bench()
    bench.params |= {"return_seconds": 0.5}
    procedure = bench.opened()
    procedure.authority.write(Step.FENCE_PRODUCERS, Entry.INTENT, {"try": 1})
    bench.addresses.update(kafka_standby="evil:9092")
    with pytest.raises(AirflowFailException, match="The rollback: not within.*kafka_standby: evil:9092, began with"):
        ReturnToSource(task_id=Step.RETURN_TO_SOURCE.value).execute(bench.context())
    bench.addresses.clear()
    ReturnToSource(task_id=Step.RETURN_TO_SOURCE.value).execute(bench.context(attempt=2))


def test_a_run_whose_kafka_connection_was_edited_is_closed(bench: Bench) -> None:
    """Its evidence is written all the same."""
    bench.addresses.update(kafka_standby="evil:9092")
    with pytest.raises(AirflowException):
        CloseProcedure(task_id=Step.CLOSE_PROCEDURE.value).execute(bench.context())
    assert (bench.folder / "evidence").exists(), "no evidence at all"


def test_an_accepted_journal_gives_no_epoch_twice(bench: Bench) -> None:
    """A process of before the loss has the newest anchored epoch; no later process may get it again."""
    zombie = bench.procedure()
    zombie.anchors.refuse_contradicted_journal()
    for _ in range(3):
        zombie.lease.take_new_epoch()
        zombie.authority.write(Step.CHECK_READINESS, Entry.INTENT, {"attempt": 1})
    lost = zombie.lease.epoch
    with database(bench) as base:
        base.execute("DELETE FROM entries WHERE sequence > 3")
        base.execute("DELETE FROM leases WHERE epoch > 1")
        base.execute("UPDATE leases SET released_at = NULL, outcome = NULL")
    assert "Accepted" in accept_journal(accepting(bench), "olga", "lost for good")
    for _ in range(5):
        newer = bench.procedure()
        newer.anchors.refuse_contradicted_journal()
        newer.lease.take_new_epoch()
        if newer.lease.epoch >= lost:
            break
    with pytest.raises(SwitchbackError):
        zombie.authority.hold()
    assert newer.lease.epoch > lost


def test_an_acceptance_without_the_key_is_refused(
    make_bench: Callable[..., Bench], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would not count, and nothing would say so."""
    key = make_key(tmp_path / "journal.pem")
    monkeypatch.delenv("SWITCHBACK_JOURNAL_KEY", raising=False)
    bench = make_bench(journal={"connection": "journal", "public_keys": [key]})
    OpenProcedure(task_id=Step.OPEN_PROCEDURE.value).execute(bench.context())
    with pytest.raises(AirflowFailException, match="acted"):
        act(bench)
    with database(bench) as base:
        base.execute("DELETE FROM entries WHERE sequence > 4")
    try:
        told = accept_journal(accepting(bench), "olga", "lost")
    except SwitchbackError:
        return
    assert told.startswith("Accepted")
    with pytest.raises(AirflowFailException, match="acted"):
        act(bench)


def test_a_spark_cluster_of_airflows_database_is_not_exported(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of the command's steps would make it one that counts."""
    stored = {"spark": {"conn_type": "spark", "host": "evil", "port": 7077, "password": "mine"}}
    monkeypatch.setattr(
        subprocess, "run", lambda *_, **__: SimpleNamespace(stdout=json.dumps(stored), stderr="", returncode=0)
    )
    for name, value in exported_connections(load_topology(bench.topology)).items():
        monkeypatch.setenv(name, value)
    with pytest.raises((BadInput, AirflowNotFoundException)):
        Connections().check_spark("spark")


def test_two_journals_of_other_pairs_may_share_a_cluster(bench: Bench, tmp_path_factory: Any) -> None:
    """Another installation, with its own journal, has a pair that shares the cluster standby."""
    foreign = Anchor(0, 900, "f" * 64, "standby+third", 4, "planned_failover-x", "forecast", "intent", "2026-11-25")
    bench.clusters["standby"].anchors.values.append(foreign.as_bytes())
    with pytest.raises(AirflowFailException, match="acted"):
        act(bench)


def test_a_journal_that_lost_entries_stops_a_person_too(bench: Bench) -> None:
    """plan --by-hand takes an epoch and writes to a journal that is behind its anchors."""
    from kafka_dr.commands.manual_actions import record_manual_action
    from kafka_dr.procedure.find import procedure_holding

    with pytest.raises(AirflowFailException, match="acted"):
        act(bench)
    with database(bench) as base:
        base.execute("DELETE FROM entries WHERE sequence > 3")
    before = len(bench.journal.entries())
    with pytest.raises(SwitchbackError):
        record_manual_action(
            procedure_holding("primary", "standby"),
            SimpleNamespace(opening=SimpleNamespace(removes=(), adds=())),
            "returning",
            "bob",
        )  # type: ignore[arg-type]
    assert len(bench.journal.entries()) == before


def test_the_routing_record_alone_voids_no_anchor_on_the_clusters(bench: Bench) -> None:
    """Whoever writes the routing record, such as a deployment of the applications, is not the orchestrator."""
    with pytest.raises(AirflowFailException, match="acted"):
        act(bench)
    forged = Anchor(7, 0, "", "", 0, "", "", "", "")
    (bench.folder / "routing.json").write_text(
        json.dumps({"cluster": "primary", "bootstrap_servers": "x:1", "version": 1, "switchback_journal": vars(forged)})
    )
    with database(bench) as base:
        base.execute("DELETE FROM entries WHERE sequence > 3")
    with pytest.raises(AirflowFailException, match="is missing"):
        act(bench)


def test_a_run_of_an_earlier_version_may_return_with_its_own_deadlines(make_bench: Callable[..., Bench]) -> None:
    """It began with a deadline that the new default `limits` forbid; clients are fenced."""
    from tests.support.facts import open_run

    bench = make_bench(deadlines={})
    bench.params |= {"stable_seconds": 0.1}
    open_run(bench.procedure(), bound=False)
    ReturnToSource(task_id=Step.RETURN_TO_SOURCE.value).execute(bench.context())


def test_a_connection_that_is_not_used_stops_no_opening(monkeypatch: pytest.MonkeyPatch, make_bench: Any) -> None:
    """Of the lost source's site: its Connect worker's connection is not defined any more."""
    bench = make_bench(dag_id="unplanned_failover")
    bench.clusters["primary"].away = True
    real = bench.connections.login

    def login(name: str) -> tuple[str, str, str]:
        if name == "connect_primary":
            raise LookupError(f"The conn_id `{name}` isn't defined")
        return real(name)

    monkeypatch.setattr(bench.connections, "login", login)
    OpenProcedure(task_id=Step.OPEN_PROCEDURE.value).execute(bench.context())
