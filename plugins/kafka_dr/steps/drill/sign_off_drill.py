"""The last gate of a drill: people state what no program knows, and sign."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Param

from kafka_dr.actions.drill.judgement import drill_figures, drill_markdown, judge_drill
from kafka_dr.domain.canonical_json import digest_of
from kafka_dr.domain.drill.schedule import SIGN_OFF_WAIT
from kafka_dr.domain.drill.sign_off import TEXTS
from kafka_dr.errors import ApprovalMissing
from kafka_dr.hooks.airflow_api import HitlAnswer
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import DrillSignedOff, QuestionAsked
from kafka_dr.procedure.run import Run
from kafka_dr.steps.drill.after_passes import AfterPasses
from kafka_dr.steps.gate import ProcedureGate
from kafka_dr.vocabulary import APPROVE, Step

_ASKED = {
    "scenario": "What the drill stands for, with the reference to the risk or business impact analysis.",
    "third_parties": "Who outside of the company took part, such as a cloud provider.",
    "observers": "Who watched.",
    "findings_owners": "One line a finding: `ID: OWNER, due YYYY-MM-DD`, `ID: accepted by NAME, REASON` or"
    " `ID: closed, WHAT WAS DONE`; `NEW: OWNER, due YYYY-MM-DD, WHAT` for what no program saw.",
    "conclusion": "What you conclude.",
}


class SignOffDrill(AfterPasses, ProcedureGate):
    """Show the drill's verdict so far, and ask for scenario, third parties, observers, findings and a conclusion.

    Nobody needs to answer: after seven days the drill is closed without a signature, which its verdict says.
    """

    without_answer = (
        "The drill is closed without a signature. Name the person under `approvers` in the topology, or have an"
        " approver sign the next drill."
    )

    def __init__(self, **settings: Any) -> None:
        schema: dict[str, Any] = {"type": ["null", "string"], "maxLength": 10_000}
        form = {name: Param("", description=_ASKED[name], **schema) for name in TEXTS}
        super().__init__(**settings | {"params": form})

    def procedure(self, context: Any) -> Run:
        """Return the drill, whose params Airflow mixes with the fields of this gate."""
        params = {name: value for name, value in context["params"].items() if name not in TEXTS}
        return super().procedure({**context, "params": params})

    def execute(self, context: Any) -> Any:
        """Ask, unless the drill was signed off already."""
        with self.recorded(context) as procedure:
            if not procedure.lease.ever_held or procedure.progress.done(DrillSignedOff) is not None:
                return {"done": self.task_id}
            self.begin(procedure, context)
            section = judge_drill(procedure)
            digest = digest_of(section)
            subject = f"Sign off the {section['kind']} drill, so far {section['verdict']}?"
            self.subject, self.body = f"{subject} {digest}", drill_markdown(section)
            self.response_timeout = SIGN_OFF_WAIT
            asked = QuestionAsked(
                asks=subject,
                digest=digest,
                wait_seconds=SIGN_OFF_WAIT.total_seconds(),
                figures=drill_figures(section),
            )
            record_fact(procedure.authority, self.task_id, asked)
        return super(ProcedureGate, self).execute(context)

    def execute_complete(self, context: Any, event: dict[str, Any]) -> Any:
        """Record who signed and wrote what, as Airflow's API states it; without an answer, that nobody did."""
        with self.recorded(context) as procedure:
            # A drill that was given up meanwhile is closed.
            procedure.authority.hold()
            identity = procedure.identity
            answer = procedure.systems.api.hitl(identity.dag_id, identity.run_id, self.task_id)
            if problem := _why_not_signed(procedure, answer):
                self.ask_again(procedure, problem, context)
            record_fact(procedure.authority, self.task_id, _signed(answer))
            return {"done": self.task_id}


def _signed(answer: HitlAnswer | None) -> DrillSignedOff:
    if answer is None or not answer.chosen_options or not answer.responded_by_name:
        return DrillSignedOff(signed_by=None, signed_at=None, accepted=False)
    texts = {name: str(answer.params_input.get(name) or "").strip() for name in TEXTS}
    return DrillSignedOff(
        signed_by=answer.responded_by_name,
        signed_at=answer.responded_at.isoformat() if answer.responded_at else None,
        accepted=answer.chosen_options == (APPROVE,),
        texts={name: text for name, text in texts.items() if text},
    )


def _why_not_signed(procedure: Run, answer: HitlAnswer | None) -> str:
    """Return why a signature does not count: the starter's, or one of nobody who may approve; empty if it counts.

    A rejection counts whoever gives it, as at every gate.
    """
    if answer is None or answer.chosen_options != (APPROVE,) or not answer.responded_by_name:
        return ""
    starter = _starter(procedure)
    if starter is not None and starter in (answer.responded_by_name, answer.responded_by_id):
        return f"{starter} started the drill and answered {Step.SIGN_OFF_DRILL}"
    return procedure.approvals.why_no_approver(answer)


def _starter(procedure: Run) -> str | None:
    """Return who started the drill; None for one that was scheduled."""
    try:
        return procedure.approvals.starter()
    except ApprovalMissing:
        return None
