"""Facts (contents of journal entries) about diagnoses, which change nothing and take no lease."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafka_dr.procedure.entries.fact import StepOutcome
from kafka_dr.procedure.entries.records import Figures
from kafka_dr.vocabulary import Step


class DiagnosisOpened(StepOutcome, steps=(Step.OPEN_PROCEDURE,)):
    """A diagnosis begins.

    Attributes:
        pair_held_by: the procedure that holds the pair of clusters; None if none does.
    """

    pair_held_by: str | None


class DiagnosisMade(StepOutcome, steps=(Step.DIAGNOSE_REPLICATION,)):
    """What the decision trees found about a flow.

    Attributes:
        findings: faults and what will pass by itself, each as of `DiagnosisFinding.as_dict`.
        choices: likewise, what is so on purpose.
        asked: tree -> number of clusters, connectors, topics and so on that it was asked about.
        not_asked: tree -> why it could not be asked.
    """

    source: str
    target: str
    findings: Sequence[Figures]
    choices: Sequence[Figures]
    asked: Mapping[str, int]
    not_asked: Mapping[str, str]
