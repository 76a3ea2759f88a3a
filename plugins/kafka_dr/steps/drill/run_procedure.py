"""One pass of a canary drill: an ordinary run of a procedure's DAG, in the drill's private installation."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Any

from airflow.providers.common.compat.sdk import DagRunTriggerException
from airflow.sdk import DagRunState

from kafka_dr.actions.drill.counting import count_records
from kafka_dr.actions.drill.kind import kind_of
from kafka_dr.actions.drill.moves_by_people import follow_move
from kafka_dr.actions.drill.passes import begin_cut, end_cut, pass_evidence, require_reading_clients, why_not_run
from kafka_dr.domain.drill.schedule import MOVE_WAIT
from kafka_dr.errors import NotReady
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.drill_run import PrivateInstallation, installation_of
from kafka_dr.procedure.entries import PassEnded, PassToBegin
from kafka_dr.procedure.run import Identity, Run
from kafka_dr.steps.base import ProcedureStep
from kafka_dr.vocabulary import Outcome

_POLL_SECONDS, _DRAIN_SECONDS = 2, 5.0
#: How long a pass waits for the drill's clients, whose task Airflow starts beside the first pass; in seconds.
_CLIENTS_SECONDS = 120.0


class RunProcedure(ProcedureStep):
    """Trigger a run of a DAG for the drill, wait for its end, and count the drill's records.

    A pass that ends otherwise than completed fails the drill, not the task: what was made is still removed, and the
    passes after it are not run.

    Args:
        procedure_dag: the DAG.
        back: whether the pass goes from the drill's target to its source.
    """

    def __init__(self, *, procedure_dag: str, back: bool = False, **settings: Any) -> None:
        super().__init__(**settings)
        self.procedure_dag, self.back = procedure_dag, back

    def run_once(self, procedure: Run, context: Any, woken: bool = False) -> dict[str, Any]:
        """Trigger the run unless it exists, once the drill's clients read; write the outcome when the run has ended."""
        if self.already_done(procedure):
            return {"done": self.task_id}
        self.begin(procedure, context, woken)
        if kind_of(procedure) == "full":
            record_fact(procedure.authority, self.task_id, self._follow_people(procedure))
            return {"done": self.task_id}
        if why_not := why_not_run(procedure, kind_of(procedure), self.task_id):
            record_fact(procedure.authority, self.task_id, PassEnded(ran=False, why_not=why_not))
            return {"done": self.task_id}
        private = installation_of(procedure)
        identity = Identity(self.procedure_dag, f"drill__{private.names.short}__{self.task_id}")
        state = self._state_of(identity, context)
        if state is None:
            look = partial(require_reading_clients, private, procedure, self._ends(private)[0])
            procedure.progress.wait(self.task_id, "the drill's clients to read", look, _CLIENTS_SECONDS)
            self._trigger(procedure, private, identity, context)
        if state not in (DagRunState.SUCCESS, DagRunState.FAILED):
            self._wait_for(identity)
        record_fact(procedure.authority, self.task_id, self._judge(procedure, private, identity))
        return {"done": self.task_id}

    def _follow_people(self, procedure: Run) -> PassEnded:
        """Wait for the move that people make in this step's place, for as long as a notice and a week."""
        seconds = procedure.flow.objectives.notice_hours * 3_600 + MOVE_WAIT.total_seconds()
        what = f"the move that {self.task_id} of a full drill follows"
        return procedure.progress.wait(self.task_id, what, lambda: follow_move(procedure, self.task_id), seconds)

    def execute_complete(self, context: Any, event: Any = None) -> dict[str, Any]:
        """Go on when Airflow says that the run has ended."""
        return self.resume(context, event)

    def _state_of(self, identity: Identity, context: Any) -> str | None:
        """Return Airflow's state of the pass's run; None if it was never triggered."""
        ti = context["ti"]
        if not ti.get_dr_count(dag_id=identity.dag_id, run_ids=[identity.run_id]):
            return None
        state: str = ti.get_dagrun_state(dag_id=identity.dag_id, run_id=identity.run_id)
        return state

    def _trigger(self, procedure: Run, private: PrivateInstallation, identity: Identity, context: Any) -> None:
        """Write the intent, and hand the run to Airflow, which wakes this task when the run has ended."""
        if context["ti"].get_dag(identity.dag_id).is_paused:
            raise NotReady(
                f"The DAG {identity.dag_id} is paused, so that no pass of a drill can run",
                "Airflow states is_paused",
                f"Unpause {identity.dag_id}; then start a new drill.",
            )
        record_fact(procedure.authority, self.task_id, PassToBegin(dag_id=identity.dag_id, run_id=identity.run_id))
        if self.procedure_dag == "unplanned_failover":
            begin_cut(private, procedure)
        ends = self._ends(private)
        conf = {
            "source": ends[0],
            "target": ends[1],
            "reason": f"{self.task_id} of the drill {procedure.id}",
            "drill": procedure.id,
            # A drill has no drain hook: its consumer leaves when its reads are fenced.
            **({} if self.procedure_dag == "unplanned_failover" else {"drain_seconds": _DRAIN_SECONDS}),
        }
        raise DagRunTriggerException(
            trigger_dag_id=identity.dag_id,
            dag_run_id=identity.run_id,
            conf=conf,
            logical_date=None,
            reset_dag_run=False,
            skip_when_already_exists=False,
            wait_for_completion=True,
            allowed_states=[DagRunState.SUCCESS],
            failed_states=[DagRunState.FAILED],
            poke_interval=_POLL_SECONDS,
            deferrable=True,
        )

    def _wait_for(self, identity: Identity) -> None:
        from airflow.providers.standard.triggers.external_task import DagStateTrigger  # noqa: PLC0415

        self.defer(
            trigger=DagStateTrigger(
                dag_id=identity.dag_id,
                run_ids=[identity.run_id],
                states=["success", "failed"],  # type: ignore[list-item]
                poll_interval=_POLL_SECONDS,
            ),
            method_name="execute_complete",
        )

    def _judge(self, procedure: Run, private: PrivateInstallation, identity: Identity) -> PassEnded:
        """Return how the pass ended, by its evidence, and what became of the drill's records."""
        if self.procedure_dag == "unplanned_failover":
            end_cut(private, procedure)
        path, evidence = pass_evidence(private, identity.procedure_id)
        systems = private.systems_of(procedure)
        completed = evidence.get("outcome") == Outcome.COMPLETED
        cut_at = procedure.progress.began(self.task_id) if self.procedure_dag == "unplanned_failover" else None
        ends = self._ends(private)
        counted = count_records(systems, private, evidence, ends, cut_at) if completed else None
        return PassEnded(
            ran=True,
            pass_outcome=evidence.get("outcome"),
            pass_reason=str(evidence.get("reason_for_outcome", "the run left no evidence"))[:2_000],
            pass_procedure=identity.procedure_id,
            evidence=path,
            evidence_digest=evidence.get("digest"),
            integrity=asdict(counted) if counted else None,
        )

    def _ends(self, private: PrivateInstallation) -> tuple[str, str]:
        """Return source and target of the pass."""
        return (private.target, private.source) if self.back else (private.source, private.target)
