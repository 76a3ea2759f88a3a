"""A bench whose topology allows canary drills, and drills that are as far as prepare_drill."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from kafka_dr.actions.drill.ledger import DrillLedger
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.drill_run import installation_of
from kafka_dr.procedure.entries import DrillToClean, DrillToPrepare
from kafka_dr.procedure.find import procedure_of
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Step

from tests.support.bench import Bench
from tests.support.connect import Worker
from tests.support.facts import NO_FILE

DRILL = {
    "connect": {"primary": "connect_drill_primary", "standby": "connect_drill_standby"},
    "clients": {"primary": "kafka_primary_drill", "standby": "kafka_standby_drill"},
    "principals": ["User:switchback-drill"],
    "environment": "staging",
}
NOTHING = DrillToClean(topic_ids_to_delete={}, groups_to_delete={}, entries_to_remove={}, connectors_to_delete={})


def drill_bench(make_bench: Callable[..., Bench], settings: dict[str, Any] | None = None, **topology: Any) -> Bench:
    """Return a bench whose runs are drills.

    Args:
        settings: changes of the settings of drills.
        topology: changes of the topology.
    """
    bench = make_bench(dag_id="failover_drill", drill=DRILL | (settings or {}), **topology)
    for alias, cluster in bench.clusters.items():
        bench.workers[f"drill_{alias}"] = Worker({})
        for name in (alias, f"drill_{alias}"):
            bench.workers[name].kafka_cluster_id = cluster.id
    return bench


def mark_environment(bench: Bench, *environments: str) -> None:
    """Create the markers of these environments on both clusters, and no others."""
    for cluster in bench.clusters.values():
        for name in [name for name in cluster.partitions if name.startswith("__switchback_environment.")]:
            del cluster.partitions[name]
        for environment in environments:
            cluster.create_topic(f"__switchback_environment.{environment}", 1)


def prepared_drill(bench: Bench, run_id: str = "r1", lives_seconds: float = 3600.0) -> Run:
    """Return a drill that has its lease, its private folder and the intent to make its things.

    Args:
        lives_seconds: time from now until the drill's time to live is over.
    """
    drill = bench.opened(run_id)
    private = installation_of(drill)
    DrillLedger(private.folder).begin()
    ends_at = (datetime.now(UTC) + timedelta(seconds=lives_seconds)).isoformat()
    intent = DrillToPrepare(
        drill_short=private.names.short, folder=str(private.folder), ends_at=ends_at, production=NO_FILE
    )
    record_fact(drill.authority, Step.PREPARE_DRILL, intent)
    return drill


def pass_run(drill_id: str, dag_id: str = "planned_failover", **params: Any) -> Run:
    """Return the run of a pass, as a step of this DAG gets it from Airflow's context."""
    given = {"source": "primary", "target": "standby", "reason": "drill", "drill": drill_id, **params}
    return procedure_of({"dag_run": SimpleNamespace(dag_id=dag_id, run_id="drill__1"), "params": given})
