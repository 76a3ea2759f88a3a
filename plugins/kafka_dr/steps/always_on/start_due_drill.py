"""Start the drill that is due."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from airflow.providers.common.compat.sdk import AirflowFailException, DagRunTriggerException
from airflow.sdk import BaseOperator

from kafka_dr.actions.readiness.document import document_path, read_document
from kafka_dr.actions.readiness.flow_check import is_stopped, newest_drill
from kafka_dr.domain.drill.schedule import why_due
from kafka_dr.domain.runbook_pages import page_of_failure
from kafka_dr.errors import SwitchbackError
from kafka_dr.procedure.entries import ProcedureOpened, facts_in
from kafka_dr.procedure.find import flows_to_check
from kafka_dr.procedure.run import Run
from kafka_dr.procedures import DUE_RUN, FAILOVER_DRILL, lease_name
from kafka_dr.vocabulary import Entry, Step


class StartDueDrill(BaseOperator):
    """Trigger failover_drill for one flow whose drill is due; the next run of this DAG starts the next one."""

    def execute(self, context: Any) -> str:
        """Return that no drill is due; otherwise Airflow ends this task when it has triggered the drill."""
        try:
            due = _first_due(flows_to_check(None, None))
        except SwitchbackError as error:
            raise AirflowFailException(f"{error} Page: {page_of_failure(self.task_id)}") from None
        if due is None:
            return "no drill is due"
        run, why = due
        request, now = run.request, run.journal.now()
        raise DagRunTriggerException(
            trigger_dag_id=FAILOVER_DRILL.dag_id,
            dag_run_id=f"{DUE_RUN}{request.source}-{request.target}__{now.strftime('%Y%m%dT%H%M%S')}",
            conf={"source": request.source, "target": request.target, "reason": f"Due: {why}"[:500]},
            logical_date=None,
            reset_dag_run=False,
            skip_when_already_exists=False,
            wait_for_completion=False,
            allowed_states=[],
            failed_states=[],
            poke_interval=60,
            deferrable=False,
        )


def _first_due(runs: Iterable[Run]) -> tuple[Run, str] | None:
    """Return the first flow whose drill is due, and why; None if no drill is due, or only those of flows at rest.

    Raises:
        ConnectUnavailable: a drill is due, and whether its flow is at rest cannot be read; no other flow's is due.
    """
    unread: SwitchbackError | None = None
    for run in runs:
        if not (why := _why_due(run)):
            continue
        try:
            if not is_stopped(run):
                return run, why
        except SwitchbackError as error:
            unread = unread or error
    if unread is not None:
        raise unread
    return None


def _why_due(run: Run) -> str:
    """Return why a drill of a flow is due; empty if none is, or if a drill or a procedure holds the clusters."""
    settings, flow = run.topology.drill, run.flow
    if settings is None or not settings.scheduled:
        return ""
    names = (run.pair, lease_name(FAILOVER_DRILL.dag_id, run.pair))
    if any(lease is not None and lease.released_at is None for lease in map(run.journal.lease, names)):
        return ""
    document = read_document(document_path(run.topology.evidence, flow.source, flow.target), run.artifacts.files)
    days = (flow.objectives.drill_days, flow.objectives.retest_days)
    return why_due(newest_drill(run), _last_start(run), document, days, run.journal.now())


def _last_start(run: Run) -> datetime | None:
    """Return when a drill of the flow last took its lease, or was refused after it had been started here."""
    opened = facts_in(run.journal.entries(step=Step.OPEN_PROCEDURE, kind=Entry.OPENED), ProcedureOpened)
    ends = (run.request.source, run.request.target)
    times = [
        datetime.fromisoformat(one.triggered_at)
        for one in opened
        if one.dag_id == FAILOVER_DRILL.dag_id and (one.source, one.target) == ends
    ]
    begins = f"{FAILOVER_DRILL.dag_id}-{DUE_RUN}{ends[0]}-{ends[1]}__"
    refusals = run.journal.entries(step=Step.OPEN_PROCEDURE, kind=Entry.REFUSAL)
    times += [entry.at for entry in refusals if entry.procedure_id.startswith(begins)]
    return max(times, default=None)
