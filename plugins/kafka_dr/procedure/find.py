"""Find the run to which an Airflow task belongs, and the run that holds the lease of a pair of clusters."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from kafka_dr.config.settings import Request, Topology, check_params, load_topology
from kafka_dr.connections import Connections
from kafka_dr.errors import BadInput
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.procedure.binding import bound_to
from kafka_dr.procedure.drill_run import pass_of_drill
from kafka_dr.procedure.run import Identity, Run, opened_by
from kafka_dr.procedures import foreign_params, topic_choice


def request_of(topology: Topology, dag_id: str, params: Mapping[str, Any]) -> Request:
    """Check the params of a DAG run and return them as a Request; BadInput names every problem."""
    return check_params(topology, params, foreign_params(dag_id), topic_choice(dag_id))


def procedure_of(context: Any) -> Run:
    """Return the run of the procedure to which an Airflow task belongs, from the task's context.

    The param `drill`, which failover_drill alone sets, makes the run a pass of that drill.

    Raises:
        BadInput: the params or the topology cannot be used; nothing was changed yet.
    """
    run, params = context["dag_run"], dict(context["params"])
    topology, identity = load_topology(), Identity(run.dag_id, run.run_id)
    drill_id = params.pop("drill", None)
    if drill_id is not None:
        return pass_of_drill(str(drill_id), identity, params, topology, Connections(), request_of)
    request = request_of(topology, run.dag_id, params)
    return Run.connected(identity, request, topology, Connections())


def procedure_holding(source: str, target: str) -> Run:
    """Return the run that has the lease of a pair of clusters, or had the lease last, with the params of its start.

    Raises:
        BadInput: the topology has no such cluster, or no procedure ever had the lease.
    """
    topology, connections, journal = _read_set_up()
    pair = topology.pair_key(source, target)
    lease = journal.lease(pair)
    opened = opened_by(journal, lease.holder) if lease else None
    if opened is None:
        raise BadInput(
            f"No procedure holds {pair}",
            "the journal records no procedure for these clusters",
            "Correct source and target: name the two clusters of a procedure that was started.",
        )
    return Run.reopened(opened, journal, topology, bound_to(opened, connections))


def reopened_run(procedure_id: str) -> Run:
    """Return the run of a procedure by its id, with the params of its start, for a command or a script.

    Raises:
        BadInput: the topology cannot be used, or no procedure of this id ever had a lease.
    """
    topology, connections, journal = _read_set_up()
    opened = opened_by(journal, procedure_id)
    if opened is None:
        raise BadInput(
            f"The journal has no procedure {procedure_id!a}",
            "",
            "Take the id from the name of the procedure's folder in the evidence folder.",
        )
    return Run.reopened(opened, journal, topology, bound_to(opened, connections))


def run_with_bad_params(context: Any) -> Run | None:
    """Return the run of a task whose params are invalid; None if the topology cannot be used, or for a drill's pass.

    Of the params only source, target and reason are set, as unchecked text of at most 500 characters.
    """
    if context["params"].get("drill") is not None:
        # Nothing of a pass stands in production's journal.
        return None
    try:
        topology = load_topology()
    except BadInput:
        return None
    run, params = context["dag_run"], context["params"]
    request_fields: dict[str, Any] = {name: str(params.get(name, ""))[:500] for name in ("source", "target", "reason")}
    return Run.connected(
        Identity(run.dag_id, run.run_id), Request.model_construct(**request_fields), topology, Connections()
    )


def run_between(source: str, target: str, name: str) -> Run:
    """Return a run of no DAG, under which a command reads the journal, and its anchors on two clusters.

    Args:
        name: what the command does; it stands for the DAG id.
    """
    # With this value Airflow reads connections as a server does, not from its API as a task does.
    os.environ.setdefault("_AIRFLOW_PROCESS_CONTEXT", "server")
    topology, connections, journal = _read_set_up()
    # Not checked: evidence of a refused run may name clusters that the topology does not have.
    request = Request.model_construct(source=source, target=target, reason=name)
    identity = Identity(name, journal.now().strftime("%Y%m%dT%H%M%S"))
    return Run(identity, request, journal, connections.systems(request, topology))


def flows_to_check(source: str | None, target: str | None) -> list[Run]:
    """Return a run of no DAG for each flow of the topology, which reads and never acts; or for one flow alone.

    Args:
        source, target: aliases of the one flow; both None for all flows.

    Raises:
        BadInput: the topology has no such flow, or only one of the two is given.
    """
    if (source is None) != (target is None):
        raise BadInput(
            "One of the params source and target is missing",
            f"source {source!a}, target {target!a}",
            "Give both for one flow, or none for every flow of the topology.",
        )
    topology, connections, journal = _read_set_up()
    flows = topology.flows if source is None or target is None else (topology.flow(source, target),)
    identity = Identity("readiness_check", journal.now().strftime("%Y%m%dT%H%M%S"))
    return [
        Run(identity, request, journal, connections.systems(request, topology))
        for flow in flows
        for request in [
            Request(source=flow.source, target=flow.target, reason="readiness_check", deadlines=topology.deadlines)
        ]
    ]


def _read_set_up() -> tuple[Topology, Connections, Journal]:
    """Return the topology that the environment names, Airflow's connections, and the topology's journal."""
    topology, connections = load_topology(), Connections()
    return topology, connections, Journal(connections.journal_url(topology.journal.connection))
