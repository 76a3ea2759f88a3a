"""The base of every gate: asks a second person a question, and binds the answer to a digest of what is approved."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NoReturn

from airflow.providers.common.compat.sdk import AirflowException
from airflow.providers.standard.operators.hitl import HITLOperator

from kafka_dr.errors import ApprovalMissing, HookUnavailable, Refusal
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import (
    AnswerIgnored,
    Approval,
    ApprovalGiven,
    GateApproved,
    GatePassed,
    QuestionAsked,
    TryBegun,
    facts_of,
)
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import JournaledStep
from kafka_dr.vocabulary import APPROVE, REJECT, Entry

#: How often a gate asks again after an answer that does not count, such as an answer by the starter of the run.
_MAX_REPEATS = 5


def refuse_unknown_starter(procedure: Run) -> None:
    """Raise ApprovalMissing if Airflow names no user who started the run.

    An Airflow API that does not answer is no reason to refuse, because the starter is checked again with the answer.
    """
    with suppress(HookUnavailable):
        procedure.approvals.starter()


@dataclass(frozen=True)
class Question:
    """What a gate asks: a subject, to which the gate itself appends the digest, and a body in Markdown.

    Attributes:
        figures: what to decide by, as sentences for a notice; no content of records.
    """

    subject: str
    body: str
    figures: tuple[str, ...] = ()


class ProcedureGate(JournaledStep, HITLOperator):
    """Asks a second person to approve what a digest names; a timeout or the starter's answer approves nothing."""

    retries: int
    #: What happens, and what to do, when no answer counts.
    without_answer = (
        "If the source is fenced, the procedure returns to the source by itself. Start a new run when a person who may"
        " approve is available."
    )

    def __init__(self, **kwargs: Any) -> None:
        defaults: dict[str, Any] = {"subject": "", "options": [APPROVE, REJECT], "retries": _MAX_REPEATS}
        super().__init__(**defaults | kwargs)

    def digest(self, procedure: Run) -> str | None:
        """Return the digest of what is to be approved; None if no approval is needed."""
        raise NotImplementedError

    def question(self, procedure: Run) -> Question:
        """Return subject and body of the question; called only if `digest` has returned a digest."""
        raise NotImplementedError

    def wait_seconds(self, procedure: Run) -> float:
        """Return the number of seconds that the gate waits for an answer."""
        return procedure.request.deadlines.approval_wait_seconds

    def execute(self, context: Any) -> Any:
        """Ask and wait for the answer; pass at once if no approval is needed, or an earlier approval still counts."""
        with self.recorded(context) as procedure:
            if self.already_done(procedure) and self.still_open(procedure):
                return {"done": self.task_id}
            self.begin(procedure, context)
            digest = self.digest(procedure)
            if digest is None or procedure.in_drill:
                record_fact(procedure.authority, self.task_id, GatePassed(asked=False))
                return {"done": self.task_id}
            refuse_unknown_starter(procedure)
            question = self.question(procedure)
            self.subject, self.body = f"{question.subject} {digest}", question.body
            wait = self.wait_seconds(procedure)
            self.response_timeout = timedelta(seconds=wait)
            asked = QuestionAsked(asks=question.subject, digest=digest, wait_seconds=wait, figures=question.figures)
            record_fact(procedure.authority, self.task_id, asked)
        return super().execute(context)

    def still_open(self, procedure: Run) -> bool:
        """Whether the gate's outcome still counts: approvals expire, and clearing a gate withdraws its approval."""
        digest = self.digest(procedure)
        if digest is None or procedure.in_drill:
            return True
        if self._was_cleared(procedure):
            return False
        try:
            procedure.approvals.require(self.task_id, digest)
        except ApprovalMissing:
            return False
        return True

    def _was_cleared(self, procedure: Run) -> bool:
        """Whether a person has cleared the gate's task since the gate's outcome was written.

        Then the try that wrote the outcome, or a later one, succeeded. A try that was killed did not succeed, and its
        retry is no clearing. The old answer proves nothing: Airflow keeps it until the cleared gate asks again. Tries
        are compared by their numbers, because Airflow's times are of another clock than the journal's.
        """
        done = procedure.progress.outcome_entry(self.task_id)
        intents = facts_of(procedure.journal.entries(procedure.id, self.task_id, Entry.INTENT), TryBegun)
        begun = [fact.attempt for entry, fact in intents if entry.sequence < done.sequence]
        tries = procedure.systems.api.tries(procedure.identity.dag_id, procedure.identity.run_id, self.task_id)
        return any(attempt.state == "success" and attempt.try_number >= max(begun, default=1) for attempt in tries)

    def execute_complete(self, context: Any, event: dict[str, Any]) -> Any:
        """Record the approval as Airflow's API states it; the event alone proves no approval.

        Raises:
            AirflowException: the answer is no approval, or none came in time. Airflow asks again only if the approval
                was not valid; it repeats this step if a system did not answer.
        """
        with self.recorded(context) as procedure:
            if "error" in event:
                raise Refusal(
                    f"{self.task_id} was not answered in time",
                    f"{event.get('error_type')}",
                    "If the source is fenced, the procedure returns to the source by itself. Start a new run when"
                    " an approver is available.",
                )
            chosen = event.get("chosen_options") or []
            if chosen != self.options[:1]:
                by = (event.get("responded_by_user") or {}).get("name")
                raise Refusal(
                    f"{self.task_id} was rejected",
                    f"{by} chose {', '.join(chosen)}",
                    "If the source is fenced, the procedure returns to the source by itself. Ask the approver for"
                    " the reason; then start a new run.",
                )
            approval = self._approval(procedure, self.digest(procedure) or "", context)
            self.record_approval(procedure, approval)
            return {"done": self.task_id}

    def record_approval(self, procedure: Run, approval: Approval) -> None:
        """Write an approval to the journal, signed, and the gate's outcome."""
        given = procedure.signatures.sign_fact(procedure.id, self.task_id, ApprovalGiven(**vars(approval)))
        record_fact(procedure.authority, self.task_id, given)
        record_fact(procedure.authority, self.task_id, GateApproved(asked=True, **vars(approval)))

    def _approval(self, procedure: Run, digest: str, context: Any) -> Approval:
        """Return the approval of exactly this digest that Airflow's API has recorded.

        Raises:
            AirflowException: the answer does not count; Airflow runs the gate again, which asks again.
            Refusal: the answer does not count, and the gate has asked again `retries` times.
        """
        try:
            return procedure.approvals.require(self.task_id, digest)
        except ApprovalMissing as error:
            self.ask_again(procedure, error.seen, context)

    def ask_again(self, procedure: Run, seen: str, context: Any) -> NoReturn:
        """Note why an answer does not count, and end this try, so that Airflow runs the gate again.

        Raises:
            AirflowException: the gate asks again.
            Refusal: the gate has asked again `retries` times.
        """
        record_fact(procedure.authority, self.task_id, AnswerIgnored(answer_ignored=seen))
        if getattr(context.get("ti"), "try_number", 1) > self.retries:
            raise Refusal(
                f"No valid answer to {self.task_id}",
                f"asked {self.retries + 1} times; the last answer: {seen}",
                self.without_answer,
            )
        raise AirflowException(f"The answer is not valid: {seen}. {self.task_id} asks again.")
