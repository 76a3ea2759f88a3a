"""Check the readiness of flows, and tell of each flow's change by its Airflow asset."""

from __future__ import annotations

from functools import partial
from typing import Any

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException
from airflow.sdk import Asset, AssetAlias, BaseOperator

from kafka_dr.actions.metrics.textfile import write_metrics_file
from kafka_dr.actions.readiness.flow_check import check_flow
from kafka_dr.concurrently import run_concurrently
from kafka_dr.config.settings import load_topology
from kafka_dr.config.topology import Topology
from kafka_dr.connections import Connections
from kafka_dr.domain.runbook_pages import page_of_failure
from kafka_dr.errors import SwitchbackError, SystemUnavailable
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.procedure.find import flows_to_check
from kafka_dr.procedure.run import Run

#: The task's outlet: assets of flows are added to it when a flow's state changes.
CHANGES = AssetAlias("switchback_readiness")


def asset_of(source: str, target: str) -> Asset:
    """Return the asset of a flow's readiness, on which teams schedule DAGs of their own."""
    return Asset(f"switchback://readiness/{source}-to-{target}")


class CheckFlows(BaseOperator):
    """Check every flow of the topology, or the one that the params name; change nothing."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(outlets=[CHANGES], **settings)

    def execute(self, context: Any) -> dict[str, str]:
        """Write the document of each flow, and return flow -> state; fail if a flow could not be checked at all.

        A state other than VERIFIED fails no task: the check did its work.
        """
        try:
            return self._check_all(context)
        finally:
            # A journal that does not answer is what the metrics have to tell.
            self._write_metrics()

    def _check_all(self, context: Any) -> dict[str, str]:
        params = context["params"]
        try:
            runs = flows_to_check(params.get("source"), params.get("target"))
        except SwitchbackError as refused:
            raise self._as_airflow(refused) from None
        with run_concurrently() as start:
            answers = [(run, start(_check, run)) for run in runs]
        states, errors = dict[str, str](), list[Exception]()
        for run, answer in answers:
            name = f"{run.request.source}->{run.request.target}"
            if (error := answer.exception()) is not None:
                self.log.error("%s could not be checked: %s", name, error)
                errors.append(error if isinstance(error, Exception) else RuntimeError(repr(error)))
                continue
            document = answer.result()
            states[name] = document["state"]
            self.log.info("%s: %s %s", name, document["state"], "; ".join(document["reasons"]))
            if document["changes"][-1]["at"] == document["checked_at"]:
                self._tell(context, run, document)
        if errors:
            raise self._as_airflow(errors[0])
        return states

    def _write_metrics(self) -> None:
        """Write the metrics file; a failure is only logged, because an alert reports metrics that are too old."""
        try:
            topology, connections = load_topology(), Connections()
            journal = partial(_open_journal, topology, connections)
            for problem in write_metrics_file(topology, journal, connections.files(topology)):
                self.log.warning("The metrics file lacks values: %s", problem)
        except (SwitchbackError, OSError) as error:
            self.log.error("The metrics file could not be written: %s", error)  # noqa: TRY400 (says all)

    def _tell(self, context: Any, run: Run, document: dict[str, Any]) -> None:
        extra = {"state": document["state"], "checked_at": document["checked_at"], "reasons": document["reasons"][:5]}
        context["outlet_events"][CHANGES].add(asset_of(run.request.source, run.request.target), extra=extra)

    def _as_airflow(self, error: Exception) -> Exception:
        if not isinstance(error, SwitchbackError):
            return error
        kind = AirflowException if isinstance(error, SystemUnavailable) else AirflowFailException
        return kind(f"{error} Page: {page_of_failure(self.task_id)}")


def _open_journal(topology: Topology, connections: Connections) -> Journal:
    return Journal(connections.journal_url(topology.journal.connection))


def _check(run: Run) -> dict[str, Any]:
    try:
        return check_flow(run)
    finally:
        run.close()
