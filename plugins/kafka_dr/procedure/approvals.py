"""Reads the approvals of one run, before each act, from Airflow's API: neither XCom nor a task's state counts."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Literal

from kafka_dr.errors import ApprovalMissing
from kafka_dr.hooks.airflow_api import HitlAnswer
from kafka_dr.procedure.entries import Approval, DataLossAssessed, FailoverForecast, TargetOpened
from kafka_dr.procedure.progress import Progress
from kafka_dr.procedure.systems import Systems
from kafka_dr.procedures import FAILOVER_DRILL
from kafka_dr.vocabulary import APPROVE, ApprovedThrough, Entry, Step

#: Set by the command run_procedure, for the steps that its own Airflow runs.
APPROVED_THROUGH_VARIABLE = "KAFKA_DR_APPROVED_THROUGH"

#: What a pair's run of lost_cluster has done: `opened`: open_target has begun, and was not undone; `reopens`: a
#: rollback may let clients on the source again.
PairState = Literal["opened", "reopens"]


class Approvals:
    """Reads the answers to the gates of one run from Airflow's API, and refuses answers that are no valid approval.

    Args:
        dag_id: Airflow's DAG id of the run.
        run_id: Airflow's id of the run.
        systems: has the client of Airflow's API.
        progress: states whether open_target is done.
        valid_seconds: maximum age of an approval, in seconds, as long as open_target is not done.
    """

    def __init__(self, dag_id: str, run_id: str, systems: Systems, progress: Progress, valid_seconds: float) -> None:
        self._dag_id, self._run_id = dag_id, run_id
        self._systems, self._progress, self._valid_seconds = systems, progress, valid_seconds

    def starter(self) -> str:
        """Return the name of the user who triggered this run, as Airflow recorded it.

        Raises:
            ApprovalMissing: Airflow names no user.
        """
        name = self._systems.api.dag_run(self._dag_id, self._run_id).triggering_user_name
        if not name:
            raise ApprovalMissing(
                "The user who started this run is unknown",
                "Airflow names no triggering user",
                "Start a new run in Airflow's web page or over Airflow's API, because Airflow's command line"
                " authenticates no user.",
            )
        return name

    def require(self, gate: str, digest: str) -> Approval:
        """Return the approval that a second person gave at a gate to exactly this digest.

        The gate's question must have named the digest. Once open_target is done, an approval of any age is valid.

        Raises:
            ApprovalMissing: the gate was not answered, or the answer is no valid approval of this digest.
        """
        answer = self._systems.api.hitl(self._dag_id, self._run_id, gate)
        if answer is None or not answer.chosen_options:
            raise ApprovalMissing(
                f"{gate} was never answered",
                "Airflow holds no answer (a gate that is marked successful approves nothing)",
                how_to_ask_again(gate),
            )
        # Once the target was opened under an approval, the approval's age must not prolong the clients' downtime.
        opened = self._progress.done(TargetOpened) is not None
        age, valid = self._age_of(answer, gate), None if opened else self._valid_seconds
        problem = problem_with(answer, self.starter(), digest, age, valid) or self.why_no_approver(answer)
        by = answer.responded_by_name or answer.responded_by_id
        if problem or by is None or answer.responded_at is None:
            raise ApprovalMissing(
                f"{gate} is not a valid approval",
                problem,
                how_to_ask_again(gate),
            )
        through = os.environ.get(APPROVED_THROUGH_VARIABLE, ApprovedThrough.AIRFLOW)
        return Approval(gate=gate, by=by, at=answer.responded_at.isoformat(), digest=digest, through=through)

    def covers_translation(self, _digest: str) -> bool:
        """Whether the approved plan showed exactly this translation to its approver."""
        return False

    def routes_clients(self) -> bool:
        """Whether the routing record is to lead to this run's target."""
        return True

    def pair_in(self, _state: PairState) -> str | None:
        """Return the procedure id of another pair's run of a common plan that has come so far; None if none has."""
        return None

    def why_no_approver(self, answer: HitlAnswer) -> str:
        """Return why the person who answered may not approve; empty if this person may."""
        name, approvers, api = str(answer.responded_by_name), self._systems.topology.approvers, self._systems.api
        if api.username in (name, answer.responded_by_id):
            return f"{name} is Switchback's own account, which approves nothing"
        if (not approvers.users and not approvers.roles) or name in approvers.users:
            return ""
        roles = api.roles_of(name) if approvers.roles else frozenset()
        if roles & set(approvers.roles):
            return ""
        allowed = ", ".join([*approvers.users, *(f"role {role}" for role in approvers.roles)])
        return f"{name} is no approver; approvers by the topology: {allowed}"

    def _age_of(self, answer: HitlAnswer, gate: str) -> float:
        """Return how many seconds ago a gate was answered, by one clock: that of Airflow's API, else the journal's.

        By the journal, the answer is as old as the gate's record of it, or at most as old as the gate's question.
        """
        if answer.responded_at is not None and answer.read_at is not None:
            return (answer.read_at - answer.responded_at).total_seconds()
        recorded = [e.at.timestamp() for e in self._progress.entries(Entry.APPROVAL) if e.step == gate]
        return self._progress.now() - (recorded[-1] if recorded else self._progress.clock(gate))

    def require_plan(self) -> Approval:
        """Return the valid approval of the run's plan; raise ApprovalMissing as `require` does."""
        planned = DataLossAssessed if self._progress.without_source else FailoverForecast
        return self.require(self._progress.planning[1], self._progress.require(planned).plan_digest)


class DrillApprovals(Approvals):
    """Approvals of a drill's pass: none is needed, because the pass can change only what its drill has made."""

    def require(self, gate: str, digest: str) -> Approval:
        """Return an approval that names the drill."""
        scope = self._systems.scope
        by = f"drill {scope.drill_id}" if scope else "drill"
        at = datetime.fromtimestamp(self._progress.now(), UTC).isoformat()
        return Approval(gate=gate, by=by, at=at, digest=digest, through=ApprovedThrough.DRILL)


def how_to_ask_again(gate: str) -> str:
    """Return advice, as sentences for a message, on how to get a valid answer to a gate (a task id)."""
    if gate == Step.DECIDE_STRANDED_RECORDS:
        return (
            "Clients stay on the source. When this run has ended and its cool-down is over, start a new run, and have a"
            f" second person answer {gate}."
        )
    if gate in FAILOVER_DRILL.steps:
        return (
            f"A drill moves no client by itself: clear {gate} alone, without its downstream tasks, and have a second"
            f" person answer {gate}."
        )
    if gate == Step.APPROVE_RE_REPLICATION:
        return (
            "If this run ends as refused or rolls back, it has deleted nothing: start a new run. Otherwise clear"
            f" {gate} alone, without its downstream tasks, and have a second person answer it; then clear the red step"
            " with its downstream tasks."
        )
    if gate == Step.APPROVE_RESTORE:
        return (
            "If this run ends as refused, it has changed no position: start a new run. Otherwise clear"
            f" {gate} alone, without its downstream tasks, and have a second person answer it; then clear"
            f" {Step.RESTORE_POSITIONS} with its downstream tasks."
        )
    if gate == Step.APPROVE_LOST_CLUSTER:
        return (
            "If the run of lost_cluster ends as refused, no client was moved: start a new run. Otherwise clear"
            f" {gate} alone, without its downstream tasks, and have a second person answer it; then clear the red step"
            " of each run, with its downstream tasks."
        )
    if gate == Step.APPROVE_CHANGE:
        return (
            "The flow gets its former configuration again by itself, if it was changed. Start a new run when this run"
            f" has ended, and have a second person answer {gate}."
        )
    return (
        "Before open_target has begun, the procedure returns to the source by itself: start a new run when this run"
        f" has ended. After open_target is done: clear {gate} alone, without its downstream tasks, and have a second"
        f" person answer {gate}; then clear the red step with its downstream tasks."
    )


def problem_with(answer: HitlAnswer, starter: str, digest: str, age: float, valid_seconds: float | None) -> str:
    """Return why a gate's answer is no valid approval; empty if the answer is valid.

    Args:
        answer: Airflow's record of the answer.
        starter: user who started the run.
        digest: the digest that the gate's question must have named.
        age: how many seconds ago the answer was given.
        valid_seconds: maximum age of the answer, in seconds; None for any age.
    """
    if answer.chosen_options != (APPROVE,):
        return f"the answer was {', '.join(answer.chosen_options)}"
    if not (answer.responded_by_id and answer.responded_by_name and answer.responded_at):
        return "Airflow names no user who answered (a timeout is no approval)"
    if starter in (answer.responded_by_id, answer.responded_by_name):
        return f"{starter} started the run and answered the gate"
    if not digest or answer.digest != digest:
        return f"the answered question does not name digest {digest}"
    if valid_seconds is not None and age > valid_seconds:
        return f"the answer was given {age:.0f} s ago, and an answer is valid for {valid_seconds:.0f} s"
    return ""
