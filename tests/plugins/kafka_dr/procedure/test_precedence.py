"""A procedure takes precedence over a drill and its passes; a drill takes precedence over nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kafka_dr.errors import LeaseLost, Refusal
from kafka_dr.procedure.find import procedure_of
from kafka_dr.procedure.run import Run
from kafka_dr.procedures import PROCEDURES, lease_name

from tests.support.bench import PAIR, Bench
from tests.support.drills.drill_bench import drill_bench, pass_run, prepared_drill
from tests.support.facts import open_run

INCIDENT = "unplanned_failover-incident"


@pytest.fixture
def bench(make_bench: Callable[..., Bench]) -> Bench:
    """Two clusters, with workers for drills beside both."""
    return drill_bench(make_bench)


def begin_incident(bench: Bench) -> int:
    """A procedure takes the pair of clusters; return its epoch."""
    return bench.journal.take_lease(PAIR, INCIDENT)


def is_preempted(run: Run) -> None:
    """Check that a run stops for the procedure, and names it."""
    with pytest.raises(Refusal, match="A procedure takes precedence over this drill") as caught:
        run.refuse_if_preempted()
    assert INCIDENT in caught.value.seen and PAIR in caught.value.seen


@pytest.mark.parametrize("kind", [None, "canary", "observe"])
def test_a_drill_gives_way_while_a_procedure_holds_the_pair(bench: Bench, kind: str | None) -> None:
    """From when the procedure has its lease until it has ended."""
    bench.params |= {"kind": kind} if kind else {}
    drill = bench.opened()
    drill.refuse_if_preempted()
    epoch = begin_incident(bench)
    is_preempted(drill)
    is_preempted(bench.procedure("r2"))
    bench.journal.release_lease(PAIR, INCIDENT, epoch, "completed")
    drill.refuse_if_preempted()


def test_a_drill_of_the_opposite_flow_gives_way_too(bench: Bench) -> None:
    """The clusters are the same."""
    bench.params |= {"source": "standby", "target": "primary"}
    begin_incident(bench)
    is_preempted(bench.procedure())


@pytest.mark.parametrize("dag_id", ["planned_failover", "failback", "unplanned_failover"])
def test_a_pass_gives_way_by_productions_journal(bench: Bench, dag_id: str) -> None:
    """Its own journal holds no procedure but the pass itself, for which the pass does not stop."""
    drill = prepared_drill(bench)
    made = pass_run(drill.id, dag_id)
    open_run(made)
    made.refuse_if_preempted()
    epoch = begin_incident(bench)
    is_preempted(made)
    is_preempted(pass_run(drill.id, dag_id))
    bench.journal.release_lease(PAIR, INCIDENT, epoch, "failed")
    made.refuse_if_preempted()


def test_a_full_drill_follows_the_procedures_of_people(bench: Bench) -> None:
    """They move the real clients, which is what the drill reports."""
    bench.params |= {"kind": "full"}
    drill = bench.opened()
    begin_incident(bench)
    drill.refuse_if_preempted()


@pytest.mark.parametrize("dag_id", sorted(set(PROCEDURES) - {"failover_drill"}))
def test_no_procedure_gives_way(bench: Bench, dag_id: str) -> None:
    """Whoever holds the clusters: a procedure is refused by the lease."""
    bench.params |= {"topics": "orders"} if PROCEDURES[dag_id].chooses_topics else {}
    context = bench.context()
    context["dag_run"].dag_id = dag_id
    run = procedure_of(context)
    begin_incident(bench)
    run.refuse_if_preempted()


def test_another_drill_is_no_procedure(bench: Bench) -> None:
    """Two drills of one pair are kept apart by the lease of drills."""
    bench.opened("other")
    drill = bench.procedure()
    drill.refuse_if_preempted()
    with pytest.raises(LeaseLost):
        open_run(drill)


def test_the_lease_of_drills_has_a_name_of_its_own(bench: Bench) -> None:
    """A drill that holds it keeps no procedure from the pair, and its end starts no cool-down there."""
    drill = bench.opened()
    assert drill.pair == f"drill:{PAIR}" and bench.journal.lease(PAIR) is None
    bench.journal.take_lease(PAIR, "planned_failover-r1", cool_down_seconds=900.0)
    drill.journal.release_lease(drill.pair, drill.id, drill.lease.epoch, "completed")
    assert bench.journal.lease(PAIR).holder == "planned_failover-r1"


def test_the_pairs_lease_is_that_of_all_procedures_but_drills_and_those_that_only_read() -> None:
    """A pass takes it in its own journal. lost_cluster starts runs that take it."""
    names = {dag_id: lease_name(dag_id, PAIR) for dag_id in PROCEDURES}
    others = ("failover_drill", "reconcile_clusters", "diagnose_replication", "lost_cluster")
    own = {names.pop(dag_id) for dag_id in others}
    assert own == {f"{name}:{PAIR}" for name in ("drill", "reconcile_clusters", "diagnose_replication", "lost_cluster")}
    assert set(names.values()) == {PAIR}


def test_a_pass_takes_the_pairs_lease_in_its_own_journal(bench: Bench) -> None:
    """As in an incident."""
    made: Any = pass_run(prepared_drill(bench).id)
    assert made.pair == PAIR
