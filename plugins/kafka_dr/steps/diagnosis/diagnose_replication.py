"""Find out why a flow does not replicate, by decision trees; changes nothing."""

from __future__ import annotations

from typing import Any

from kafka_dr.actions.diagnosis.reading import read_situation
from kafka_dr.domain.diagnosis.diagnosis import diagnose_flow
from kafka_dr.domain.diagnosis.tree import finding_text
from kafka_dr.procedure.entries import DiagnosisMade
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep
from kafka_dr.steps.diagnosis.without_lease import WithoutLease


class DiagnoseReplication(WithoutLease, ProcedureStep):
    """Read the flow's state, ask the trees, and log what they found; a finding does not fail the step."""

    expires = True

    def act(self, procedure: Run, context: Any) -> DiagnosisMade:
        """Return the findings, and which trees could not be asked."""
        diagnosis = diagnose_flow(read_situation(procedure))
        made = DiagnosisMade(
            source=procedure.request.source,
            target=procedure.request.target,
            findings=[finding.as_dict() for finding in diagnosis.findings],
            choices=[finding.as_dict() for finding in diagnosis.choices],
            asked=diagnosis.asked,
            not_asked=diagnosis.not_asked,
        )
        for finding in (*made.findings, *made.choices):
            self.log.warning("%s", finding_text(finding))
        for tree, why in made.not_asked.items():
            self.log.warning("Not asked: %s, because %s", tree, why)
        if not made.findings and not made.not_asked:
            self.log.info("No fault was found")
        return made
