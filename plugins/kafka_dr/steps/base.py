"""The base of every step: lease, predecessors, done already?, intent, act, read-back, outcome.

Invariants
1. No act without a lease held under this process's own epoch, and an intent in the journal. Each process of a step
   takes a new epoch, so that an older one (orphaned, frozen, started twice) can neither act nor write any more.
2. Predecessors are looked up in the journal: a task marked successful by hand has no outcome there.
3. A refusal ends the step at once; what an outside system did not answer is tried again by Airflow.
4. Between the fence and the opening nothing lasts longer than the fence may: what hangs is interrupted.
5. A step that is done is not done again, unless what it proved may have expired or a predecessor was done again since.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from kafka_dr.errors import (
    ApprovalMissing,
    BadInput,
    DeadlinePassed,
    HookUnavailable,
    Refusal,
    Superseded,
    SwitchbackError,
    SystemUnavailable,
)
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.hooks.connections import Connections
from kafka_dr.procedure.authority import record
from kafka_dr.procedure.entries import (
    AnswerIgnored,
    Approval,
    ApprovalGiven,
    GateApproved,
    GatePassed,
    StepFailed,
    StepNotDone,
    StepOutcome,
    StepRefused,
    TryBegun,
)
from kafka_dr.procedure.progress import WaitLonger
from kafka_dr.procedure.run import Identity, Run, opened_by
from kafka_dr.procedures import foreign_params
from kafka_dr.config.settings import Request, Topology, check_params, load_topology
from kafka_dr.vocabulary import APPROVE, REJECT, Entry, Step

_WAKE_AFTER = timedelta(seconds=5)
#: How often a gate asks again after an answer that counts for nothing, such as the starter's own.
_ASKED_AGAIN = 5


def request_of(topology: Topology, dag_id: str, params: Mapping[str, Any]) -> Request:
    """A procedure's params, checked; BadInput names everything that is wrong."""
    return check_params(topology, params, foreign_params(dag_id))


def procedure_of(context: Any) -> Run:
    """The run a task belongs to, from Airflow's context; bad params are refused here, before anything is touched."""
    run = context["dag_run"]
    topology = load_topology(os.environ.get("KAFKA_DR_TOPOLOGY", ""))
    request = request_of(topology, run.dag_id, dict(context["params"]))
    return Run.connected(Identity(run.dag_id, run.run_id), request, topology, Connections())


def procedure_holding(source: str, target: str) -> Run:
    """The procedure that holds, or held last, a pair of clusters: with the params it was triggered with.

    Raises:
        BadInput: unknown clusters, or a pair that no procedure ever held.
    """
    topology, connections = load_topology(os.environ.get("KAFKA_DR_TOPOLOGY", "")), Connections()
    pair = topology.pair_key(source, target)
    journal = Journal(connections.journal_url(topology.journal.connection))
    lease = journal.lease(pair)
    opened = opened_by(journal, lease.holder) if lease else None
    if opened is None:
        raise BadInput(
            f"No procedure holds {pair}",
            "the journal knows of none",
            "Name the clusters of a procedure that was started.",
        )
    return Run.reopened(opened, journal, topology, connections)


def run_with_bad_params(context: Any) -> Run | None:
    """A run whose params cannot be used, with as much of its request as can be shown; None without a topology."""
    try:
        topology = load_topology(os.environ.get("KAFKA_DR_TOPOLOGY", ""))
    except BadInput:
        return None
    run, params = context["dag_run"], context["params"]
    given: dict[str, Any] = {name: str(params.get(name, ""))[:500] for name in ("source", "target", "reason")}
    return Run.connected(Identity(run.dag_id, run.run_id), Request.model_construct(**given), topology, Connections())


def not_done(error: SwitchbackError) -> StepNotDone:
    """A refusal or failure as the journal holds it."""
    fact = StepRefused if isinstance(error, Refusal) else StepFailed
    return fact(error=type(error).__name__, reason=error.reason, seen=error.seen, next_step=error.next_step)


class JournaledStep:
    """What steps and gates share; `task_id` is the step's name."""

    task_id: str
    upstream_task_ids: set[str]
    log: Any

    @contextmanager
    def recorded(self, context: Any) -> Iterator[Run]:
        """The procedure; whatever goes wrong inside is written to the journal and becomes Airflow's kind of failure."""
        try:
            procedure = self.procedure(context)
            # Before anything may be written: the journal under this id could be another run's, or another one goes on
            # from it.
            procedure.progress.refuse_other_run(procedure.identity.run_id)
            procedure.lease.refuse_if_continued()
        except SwitchbackError as error:
            raise _as_airflow(error) from None
        try:
            yield procedure
        except SwitchbackError as error:
            self._try_to_record(procedure, error)
            raise _as_airflow(error) from error
        except (AirflowException, WaitLonger):
            raise
        except Exception as error:
            self._try_to_record(
                procedure,
                SwitchbackError(
                    f"{type(error).__name__} in {self.task_id}", next_step="See the task's log; it is tried again."
                ),
            )
            raise
        finally:
            procedure.close()

    def procedure(self, context: Any) -> Run:
        """The procedure that the step acts for: the run that it is a task of."""
        return procedure_of(context)

    def _try_to_record(self, procedure: Run, error: SwitchbackError) -> None:
        """The step's own failure is what the operator must see, even if the journal cannot take it any more."""
        if isinstance(error, Superseded):
            return
        try:
            self.record_failure(procedure, error)
        except SwitchbackError as second:
            self.log.error("The failure could not be written to the journal: %s", second)  # noqa: TRY400 (no trace)

    def record_failure(self, procedure: Run, error: SwitchbackError) -> None:
        """Write why the step did not do its work."""
        record(procedure.authority, self.task_id, not_done(error))

    def already_done(self, procedure: Run) -> bool:
        """Whether the step has an outcome, and none of its predecessors was done again since."""
        done = procedure.journal.last(procedure.id, self.task_id, Entry.OUTCOME)
        if done is None:
            return False
        before = [procedure.journal.last(procedure.id, step, Entry.OUTCOME) for step in self.upstream_task_ids]
        return all(entry is None or entry.sequence < done.sequence for entry in before)

    def begin(self, procedure: Run, context: Any, woken: bool = False) -> None:
        """Refuse if aborted or fenced too long; take an epoch (woken: keep it), check predecessors, write intent."""
        # Before the turn, so that a forward step does not supersede a return under way; and after it, since one may
        # have begun.
        procedure.progress.refuse_if_going_back()
        take_turn(procedure, woken)
        procedure.progress.refuse_if_going_back()
        procedure.progress.check_fence_clock()
        for step in sorted(self.upstream_task_ids):
            procedure.progress.outcome_entry(step)
        self.intend(procedure, context)

    def intend(self, procedure: Run, context: Any) -> None:
        """Write the intent, once for each try; it starts the try's clock."""
        attempt = getattr(context.get("ti"), "try_number", 1)
        begun = TryBegun(attempt=attempt)
        if begun not in procedure.progress.facts(TryBegun, self.task_id):
            record(procedure.authority, self.task_id, begun)


def take_turn(procedure: Run, woken: bool) -> None:
    """A process that begins takes a new epoch; one that was woken after a wait goes on under the newest."""
    if woken:
        procedure.authority.hold()
    else:
        procedure.lease.take_new_epoch()


def refuse_unknown_starter(procedure: Run) -> None:
    """Nobody is asked for an answer that could not count; an API that is away is asked again with the answer."""
    with suppress(HookUnavailable):
        procedure.approvals.starter()


def _as_airflow(error: SwitchbackError) -> AirflowException:
    """Map an error to Airflow's: retry only a system that did not answer, or a superseding process."""
    again = isinstance(error, SystemUnavailable | Superseded)
    return AirflowException(str(error)) if again else AirflowFailException(str(error))


@contextmanager
def bounded_by_fence(procedure: Run) -> Iterator[None]:
    """Interrupt what hangs inside once the fence's time is over; main thread only, as signals reach no other."""
    deadline = procedure.progress.fence_deadline()
    if (
        deadline is None
        or procedure.progress.began(Step.OPEN_TARGET) is not None
        or threading.current_thread() is not threading.main_thread()
    ):
        yield
        return

    def interrupt(*_: Any) -> None:
        raise DeadlinePassed(
            "Clients have been fenced for as long as allowed",
            "the step was interrupted",
            "The procedure returns to the source.",
        )

    before = signal.signal(signal.SIGALRM, interrupt)
    # Again every second: a library may swallow the first one.
    signal.setitimer(signal.ITIMER_REAL, max(0.01, deadline - time.time()), 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class ProcedureStep(JournaledStep, BaseOperator):
    """One step of a procedure. Subclasses say what to do in `act`, safe to be repeated.

    Attributes:
        expires: what the step proved may have changed since, so that it is looked at again when the task runs again.
        bounded: the step is interrupted when the fence has lasted as long as it may.
    """

    expires = False
    bounded = True

    def execute(self, context: Any) -> dict[str, Any]:
        """Do the step once; return its figures."""
        return self._execute(context, woken=False)

    def resume(self, context: Any, event: Any = None) -> dict[str, Any]:
        """Woken after a wait: look again."""
        return self._execute(context, woken=True)

    def _execute(self, context: Any, woken: bool) -> dict[str, Any]:
        with self.recorded(context) as procedure:
            try:
                return self.run_once(procedure, context, woken)
            except WaitLonger as wait:
                self.log.info("%s", wait)
        self.defer(trigger=TimeDeltaTrigger(_WAKE_AFTER), method_name="resume")
        return None

    def run_once(self, procedure: Run, context: Any, woken: bool = False) -> dict[str, Any]:
        """Begin, act, write the outcome; or return what an earlier run of the step wrote."""
        if not self.expires and self.already_done(procedure):
            self.log.info("%s is already done", self.task_id)
            return {"done": self.task_id}
        self.begin(procedure, context, woken)
        self._tell_countdown(procedure)
        with bounded_by_fence(procedure) if self.bounded else nullcontext():
            outcome = self.act(procedure, context)
        record(procedure.authority, self.task_id, outcome)
        return {"done": self.task_id}

    def _tell_countdown(self, procedure: Run) -> None:
        deadline = procedure.progress.fence_deadline()
        if deadline is not None and procedure.progress.began(Step.OPEN_TARGET) is None:
            ends = datetime.fromtimestamp(deadline, UTC).isoformat(timespec="seconds")
            self.log.info(
                "Clients are fenced; at %s, in %.0f s, the procedure returns to the source by itself",
                ends,
                deadline - time.time(),
            )

    def act(self, procedure: Run, context: Any) -> StepOutcome:
        """Do the step's work and read it back; return what proves it."""
        raise NotImplementedError


@dataclass(frozen=True)
class Question:
    """What a gate asks: a subject, which the digest ends, and a body in Markdown."""

    subject: str
    body: str


class ProcedureGate(JournaledStep, HITLOperator):
    """A question to a second person, bound to a digest. Silence, rejection and the starter's answer approve nothing."""

    retries: int

    def __init__(self, **kwargs: Any) -> None:
        usual: dict[str, Any] = {"subject": "", "options": [APPROVE, REJECT], "retries": _ASKED_AGAIN}
        super().__init__(**usual | kwargs)

    def digest(self, procedure: Run) -> str | None:
        """Digest of what is to be approved; None when there is nothing to ask."""
        raise NotImplementedError

    def question(self, procedure: Run) -> Question:
        """What is asked; there is something to ask."""
        raise NotImplementedError

    def wait_seconds(self, procedure: Run) -> float:
        """How long an answer is waited for."""
        return procedure.request.deadlines.approval_wait_seconds

    def execute(self, context: Any) -> Any:
        """Ask, or open by itself when there is nothing to ask."""
        with self.recorded(context) as procedure:
            if self.already_done(procedure) and self.still_open(procedure):
                return {"done": self.task_id}
            self.begin(procedure, context)
            digest = self.digest(procedure)
            if digest is None:
                record(procedure.authority, self.task_id, GatePassed(asked=False))
                return {"done": self.task_id}
            refuse_unknown_starter(procedure)
            asked = self.question(procedure)
            self.subject, self.body = f"{asked.subject} {digest}", asked.body
            self.response_timeout = timedelta(seconds=self.wait_seconds(procedure))
        return super().execute(context)

    def still_open(self, procedure: Run) -> bool:
        """Tell whether the gate's outcome holds: clearing a gate withdraws its approval, and answers expire."""
        digest = self.digest(procedure)
        if digest is None:
            return True
        if self._cleared(procedure):
            return False
        try:
            procedure.approvals.require(self.task_id, digest)
        except ApprovalMissing:
            return False
        return True

    def _cleared(self, procedure: Run) -> bool:
        """Tell whether a try succeeded after the outcome: then the gate was cleared, not killed and retried.

        Airflow goes on showing the answer of a gate that is cleared, until it asks again.
        """
        done = procedure.progress.outcome_entry(self.task_id)
        tries = procedure.systems.api.tries(procedure.identity.dag_id, procedure.identity.run_id, self.task_id)
        return any(one.state == "success" and one.end_date is not None and one.end_date >= done.at for one in tries)

    def execute_complete(self, context: Any, event: dict[str, Any]) -> Any:
        """Take the answer; the approval written here is what Airflow's API says, not the event."""
        with self.recorded(context) as procedure:
            if "error" in event:
                raise Refusal(
                    f"{self.task_id} was not answered in time",
                    f"{event.get('error_type')}",
                    "Start the procedure anew when an approver is there.",
                )
            chosen = event.get("chosen_options") or []
            if chosen != self.options[:1]:
                by = (event.get("responded_by_user") or {}).get("name")
                raise Refusal(
                    f"{self.task_id} was rejected",
                    f"{by} chose {', '.join(chosen)}",
                    "Talk to the approver; start the procedure anew.",
                )
            approval = self._approval(procedure, self.digest(procedure) or "", context)
            record(procedure.authority, self.task_id, ApprovalGiven(**vars(approval)))
            record(procedure.authority, self.task_id, GateApproved(asked=True, **vars(approval)))
            return {"done": self.task_id}

    def _approval(self, procedure: Run, digest: str, context: Any) -> Approval:
        """Read the approval from Airflow's API; note an invalid answer and ask again, a limited number of times."""
        try:
            return procedure.approvals.require(self.task_id, digest)
        except ApprovalMissing as error:
            record(procedure.authority, self.task_id, AnswerIgnored(answer_ignored=error.seen))
            if getattr(context.get("ti"), "try_number", 1) > self.retries:
                raise Refusal(
                    f"No answer to {self.task_id} counted",
                    f"asked {self.retries + 1} times; the last answer: {error.seen}",
                    "Start a new procedure when somebody who may approve is there.",
                ) from error
            raise AirflowException(f"The answer counts for nothing: {error.seen}. Asking again.") from error
