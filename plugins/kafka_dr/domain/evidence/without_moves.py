"""What the evidence page says first of procedures that move no client."""

from __future__ import annotations

from kafka_dr.domain.diagnosis.evidence_text import diagnosis_sentences, diagnosis_to_do
from kafka_dr.domain.evidence.fields import Evidence
from kafka_dr.domain.offsets.restore_plan import restore_sentences, restore_to_do
from kafka_dr.procedures import DIAGNOSE_REPLICATION, RESTORE_GROUP_OFFSETS


def texts_without_move(e: Evidence) -> tuple[list[str], list[str]] | None:
    """Return the first sentences of the page, and what has to be done now; None if the procedure moves clients."""
    if e["dag_id"] == DIAGNOSE_REPLICATION.dag_id:
        return diagnosis_sentences(e), diagnosis_to_do(e)
    if e["dag_id"] == RESTORE_GROUP_OFFSETS.dag_id:
        return restore_sentences(e), restore_to_do(e)
    return None
