"""Start the unplanned failover of each pair of the lost cluster; each waits for the approval of the common plan."""

from __future__ import annotations

from functools import partial
from typing import Any

from airflow.providers.common.compat.sdk import DagRunTriggerException
from airflow.sdk import DagRunState

from kafka_dr.actions.loss.pairs import pair_runs, params_of_pair, refuse_forbidden_ends
from kafka_dr.errors import NotReady
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import PairRun, PairsStarted, PairToStart
from kafka_dr.procedure.run import Run
from kafka_dr.procedures import UNPLANNED_FAILOVER
from kafka_dr.steps.base import ProcedureStep

_POLL_SECONDS = 1


class StartPairs(ProcedureStep):
    """Trigger a run of unplanned_failover for each pair, one after the other; each waits for the common approval."""

    def run_once(self, procedure: Run, context: Any, woken: bool = False) -> dict[str, Any]:
        """Trigger the next run that does not exist; write the outcome when all exist."""
        if self.already_done(procedure):
            return {"done": self.task_id}
        procedure.progress.outlast(partial(self.begin, procedure, context, woken))
        refuse_forbidden_ends(procedure)
        pairs = pair_runs(procedure)
        for pair in pairs:
            if not context["ti"].get_dr_count(dag_id=UNPLANNED_FAILOVER.dag_id, run_ids=[pair.run_id]):
                self._trigger(procedure, pair, context)
        record_fact(procedure.authority, self.task_id, PairsStarted(pairs=pairs))
        return {"done": self.task_id}

    def execute_complete(self, context: Any, event: Any = None) -> dict[str, Any]:
        """Go on when Airflow says that the run exists."""
        return self.resume(context, event)

    def _trigger(self, procedure: Run, pair: PairRun, context: Any) -> None:
        """Write the intent, and hand the run to Airflow, which wakes this task as soon as the run exists."""
        dag_id = UNPLANNED_FAILOVER.dag_id
        if context["ti"].get_dag(dag_id).is_paused:
            raise NotReady(
                f"The DAG {dag_id} is paused, so that no pair can be moved",
                "Airflow states is_paused",
                f"Unpause {dag_id}; then start a new run.",
            )
        record_fact(procedure.authority, self.task_id, PairToStart(starts_pair=pair))
        raise DagRunTriggerException(
            trigger_dag_id=dag_id,
            dag_run_id=pair.run_id,
            conf=params_of_pair(procedure, pair),
            logical_date=None,
            reset_dag_run=False,
            skip_when_already_exists=False,
            wait_for_completion=True,
            allowed_states=list(DagRunState),
            failed_states=[],
            poke_interval=_POLL_SECONDS,
            deferrable=True,
        )
