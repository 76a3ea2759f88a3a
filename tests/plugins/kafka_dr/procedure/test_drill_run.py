"""A run with the param `drill` is a pass of that drill, and acts in the drill's private installation alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from kafka_dr.actions.drill.janitor import JanitorAuthority
from kafka_dr.config.settings import load_topology
from kafka_dr.errors import BadInput
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.drill_run import PrivateInstallation, installation_of
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Entry, Step

from tests.support.bench import Bench
from tests.support.drills.drill_bench import NOTHING, drill_bench, pass_run, prepared_drill
from tests.support.facts import open_run

PASSES = ("planned_failover", "failback", "unplanned_failover")


@pytest.fixture
def bench(make_bench: Callable[..., Bench]) -> Bench:
    """Two clusters, with workers for drills beside both."""
    return drill_bench(make_bench)


@pytest.fixture
def drill(bench: Bench) -> Run:
    """A drill that has begun to make its things."""
    return prepared_drill(bench)


def is_refused(drill_id: str, dag_id: str = "planned_failover") -> BadInput:
    """Return the error with which a run that names no drill that runs is refused."""
    with pytest.raises(BadInput, match="is no drill that runs") as caught:
        pass_run(drill_id, dag_id)
    return caught.value


@pytest.mark.parametrize("dag_id", PASSES)
def test_an_unknown_drill_is_refused(drill: Run, dag_id: str) -> None:
    """A person has set the param; the message says that it is to be left out, and shows what was given."""
    for name in ("nobody", "", f"{drill.id}x", f"../{drill.id}"):
        error = is_refused(name, dag_id)
        assert repr(name) in str(error) and "Leave the param drill out" in error.next_step


def test_a_procedure_is_no_drill(bench: Bench) -> None:
    """Although it was opened."""
    bench.dag_id = "planned_failover"
    is_refused(bench.opened().id)


def test_a_drill_without_intent_is_refused(bench: Bench) -> None:
    """A drill that has its lease, and has not begun to make anything, has no passes: so has a drill that observes."""
    error = is_refused(bench.opened().id)
    assert "prepare_drill" in error.seen


def test_a_begun_try_is_no_intent_to_make_something(bench: Bench) -> None:
    """prepare_drill has begun, and has not said yet what it will make."""
    drill = bench.opened()
    drill.authority.write(Step.PREPARE_DRILL, Entry.INTENT, {"try": 1})
    is_refused(drill.id)


def test_a_drill_whose_clean_up_has_begun_is_refused(drill: Run) -> None:
    """A pass that ran now would make again what is being removed."""
    pass_run(drill.id)
    record_fact(drill.authority, Step.CLEAN_DRILL, NOTHING)
    assert "clean up" in is_refused(drill.id).seen


def test_a_drill_whose_time_is_over_is_refused(bench: Bench) -> None:
    """schedule_drills removes what it has made at any moment; the message says when the time was over."""
    error = is_refused(prepared_drill(bench, lives_seconds=-1).id)
    assert "`drill.time_to_live_seconds` were over at 20" in error.seen
    assert "start a new failover_drill" in error.next_step


def test_a_drill_that_schedule_drills_has_cleaned_is_refused(drill: Run) -> None:
    """Its entries stand under another name and name the drill; the drill itself is not closed yet."""
    janitor = JanitorAuthority(drill.journal, drill.id)
    record_fact(janitor, Step.CLEAN_DRILL, NOTHING)
    assert "schedule_drills has cleaned up" in is_refused(drill.id).seen


def test_a_clean_up_of_another_drill_by_schedule_drills_is_no_clean_up(drill: Run) -> None:
    """Each of its entries names one drill."""
    record_fact(JanitorAuthority(drill.journal, "failover_drill-r0"), Step.CLEAN_DRILL, NOTHING)
    assert pass_run(drill.id).in_drill


def test_a_drill_is_not_refused_for_another_ones_clean_up(bench: Bench, drill: Run) -> None:
    """Only its own entries count."""
    record_fact(drill.authority, Step.CLEAN_DRILL, NOTHING)
    drill.journal.release_lease(drill.pair, drill.id, drill.lease.epoch, "completed")
    other = prepared_drill(bench, "r2")
    assert pass_run(other.id).in_drill
    is_refused(drill.id)


@pytest.mark.parametrize("dag_id", PASSES)
def test_a_pass_runs_under_the_drills_topology(drill: Run, dag_id: str) -> None:
    """Production's clusters; flows, naming, routing and evidence of the drill, and its scope."""
    made, private = pass_run(drill.id, dag_id), installation_of(drill)
    assert made.in_drill and not drill.in_drill and made.systems.scope == private.scope
    assert made.topology == private.topology and made.flow.worker == "connect_drill_standby"
    assert made.artifacts.folder == private.folder / made.id
    assert made.identity.dag_id == dag_id and made.request.source == "primary"


def test_the_journal_is_the_drills(bench: Bench, drill: Run) -> None:
    """Production's lease, and everything that reads production's journal, never see a pass."""
    before = [entry.sequence for entry in bench.journal.entries()]
    made = pass_run(drill.id)
    open_run(made)
    folder = Path(bench.folder) / "evidence" / drill.id / "private"
    assert made.journal.files and all(folder in (path, *path.parents) for path in made.journal.files)
    assert [entry.sequence for entry in bench.journal.entries()] == before
    assert bench.journal.lease("primary+standby") is None
    own = Journal(made.systems.connections.journal_url("whatever the topology names"))
    assert own.lease("primary+standby").holder == made.id and own.entries(made.id)


def test_two_drills_have_two_journals(bench: Bench, drill: Run) -> None:
    """And two folders, scopes and names."""
    topology = load_topology(bench.topology)
    one, two = (PrivateInstallation(name, topology, "primary", "standby") for name in (drill.id, "failover_drill-r2"))
    assert one.folder != two.folder and one.names.short != two.names.short
    assert not one.scope.connectors & two.scope.connectors and not one.scope.groups & two.scope.groups
    assert one.connections(bench.connections).journal_url("journal") != two.connections(bench.connections).journal_url(
        ""
    )


def address(run: Run, connection: str) -> str:
    """Return the address by which a run reaches a cluster."""
    return str(run.systems.connections.kafka(connection)["bootstrap.servers"])


@pytest.mark.parametrize("dag_id", PASSES)
def test_only_the_unplanned_pass_cannot_reach_the_source(drill: Run, dag_id: str) -> None:
    """Neither as Switchback nor as the drill's client; the target is reached as ever."""
    made, away = pass_run(drill.id, dag_id), dag_id == "unplanned_failover"
    for alias, connections in {
        "primary": ("kafka_primary", "kafka_primary_drill"),
        "standby": ("kafka_standby", "kafka_standby_drill"),
    }.items():
        assert {made.topology.cluster(alias).connection, made.topology.cluster(alias).probe_connection} == {
            *connections
        }
        for name in connections:
            assert (address(made, name) != name) is (away and alias == "primary"), name


def test_the_source_is_that_of_the_pass(drill: Run) -> None:
    """An unplanned pass from the drill's target to its source loses the drill's target."""
    made = pass_run(drill.id, "unplanned_failover", source="standby", target="primary")
    assert address(made, "kafka_standby") != "kafka_standby" and address(made, "kafka_primary") == "kafka_primary"


def test_the_drills_own_view_of_the_source_stays(bench: Bench, drill: Run) -> None:
    """Its producer goes on writing to the source during the unplanned pass."""
    private = installation_of(drill)
    assert private.connections(bench.connections).kafka("kafka_primary_drill")["bootstrap.servers"] == (
        "kafka_primary_drill"
    )
    pass_run(drill.id, "unplanned_failover")
    assert bench.connections.kafka("kafka_primary")["bootstrap.servers"] == "kafka_primary"


def test_params_of_a_pass_are_checked(drill: Run) -> None:
    """As those of any other run, by the drill's topology."""
    with pytest.raises(BadInput):
        pass_run(drill.id, target="third")
    with pytest.raises(BadInput):
        pass_run(drill.id, nonsense=1)


def test_the_scope_has_literal_names_of_this_drill_alone(drill: Run) -> None:
    """Those of its topics, its groups, its connectors and MirrorMaker 2's internal topics between both clusters."""
    private = installation_of(drill)
    scope, begin = private.scope, f"switchback-drill.{private.names.short}."
    internal = {name for name in scope.topics if name.endswith(".switchback-drill.internal")}
    assert internal and all(begin in name and name.endswith(".replica") for name in scope.topics - internal)
    assert scope.groups and all(name.startswith(f"__{begin}") for name in scope.groups)
    assert scope.connectors and all(name.startswith(begin) for name in scope.connectors)
    assert scope.routing_folder == str(private.folder)
    assert "User:switchback-drill" in scope.principals and "User:app" not in scope.principals


def test_a_topology_that_lost_its_workers_ends_the_passes(bench: Bench, drill: Run) -> None:
    """Without workers of its own a drill has no private installation."""
    private = installation_of(drill)
    without = replace(private, production=private.production.model_copy(update={"drill": None}))
    with pytest.raises(BadInput, match="A canary drill needs Connect workers of its own"):
        _ = without.topology
    with pytest.raises(BadInput, match="A canary drill needs Connect workers of its own"):
        _ = without.scope
