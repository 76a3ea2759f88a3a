"""Close a diagnosis: write its evidence."""

from __future__ import annotations

from kafka_dr.steps.diagnosis.without_lease import WithoutLease
from kafka_dr.steps.shared.close_procedure import CloseProcedure


class CloseDiagnosis(WithoutLease, CloseProcedure):
    """Write the evidence with the findings; there is no lease to release."""
