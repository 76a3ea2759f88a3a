"""Warnings on the evidence's first lines: what a reader must not believe of an approval, or of a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kafka_dr.domain.loss.loss_plan import UNSIGNED_SAMPLES
from kafka_dr.domain.objectives.verdict import POSSIBLE_BREACH, Verdict, objective_text
from kafka_dr.domain.reconciliation.sentences import difference_warnings
from kafka_dr.procedure.entries import (
    AnchorsMissed,
    ApprovalGiven,
    BoundsSet,
    DataLossAssessed,
    Line,
    RecordsCompared,
    SignedFact,
    TargetOpened,
    TargetToOpen,
    facts_in,
    facts_of,
    newest_fact,
)
from kafka_dr.vocabulary import ApprovedThrough


def approved_through(lines: Sequence[Line]) -> ApprovedThrough | None:
    """Return how the run was approved: the least trustworthy way of all its approvals.

    None without approvals, or if an earlier version wrote an approval, which does not state its way.

    Args:
        lines: the procedure's journal entries.
    """
    if _opened_by(lines) is not None:
        return ApprovedThrough.BY_HAND
    ways = {approval.through for approval in facts_in(lines, ApprovalGiven)}
    if ApprovedThrough.OWN_DATABASE in ways:
        return ApprovedThrough.OWN_DATABASE
    return ApprovedThrough.AIRFLOW if ways == {ApprovedThrough.AIRFLOW} else None


def warnings_of(lines: Sequence[Line], target: str) -> list[str]:
    """Return the warnings as sentences; [] if there are none.

    Args:
        lines: the procedure's journal entries.
        target: alias of the cluster that clients were moved to.
    """
    inventory = newest_fact(lines, DataLossAssessed)
    unsigned = [UNSIGNED_SAMPLES] if inventory and inventory.rests_on_unsigned_samples else []
    return [
        *_approval_warning(lines, target),
        *unsigned,
        *_signature_warning(lines),
        *_anchor_warning(lines),
        *comparison_warnings(lines, target),
    ]


def comparison_warnings(lines: Sequence[Line], target: str) -> list[str]:
    """Return how both clusters differ by a comparison of them, as sentences; [] without a difference."""
    compared, bounds = newest_fact(lines, RecordsCompared), newest_fact(lines, BoundsSet)
    return difference_warnings(compared.payload() if compared else None, bounds.payload() if bounds else None, target)


def breach_warnings(objectives: Mapping[str, Any] | None, achieved: Mapping[str, Any] | None) -> list[str]:
    """Return a sentence for each objective that a run broke, or may have broken.

    Args:
        objectives: of the flow; None if the topology states none.
        achieved: as of `achieved_of`; None for a procedure that moves no client.
    """
    stated, verdicts = objectives or {}, (achieved or {}).get("verdicts", {})
    return [
        f"Objective {objective_text(name, stated[name])} breached: {one['reason']}."
        if one["verdict"] == Verdict.BREACHED
        else f"Objective {objective_text(name, stated[name])}: {one['reason']}."
        for name, one in verdicts.items()
        if one["verdict"] == Verdict.BREACHED or one["reason"].startswith(POSSIBLE_BREACH)
    ]


def _approval_warning(lines: Sequence[Line], target: str) -> list[str]:
    name, through = _opened_by(lines), approved_through(lines)
    if name is None:
        return [_OWN_DATABASE] if through == ApprovedThrough.OWN_DATABASE else []
    by = sorted({approval.by for approval in facts_in(lines, ApprovalGiven)})
    approved = f"{' and '.join(by)} had approved before" if by else "nobody approved this move"
    return [f"{target} was opened manually, by somebody who gave the name {name} without any login; {approved}."]


def _signature_warning(lines: Sequence[Line]) -> list[str]:
    unsigned = {line.step: fact.unsigned for line, fact in facts_of(lines, SignedFact) if fact.unsigned}
    return [f"What {step} recorded is not signed by the journal's key: {why}." for step, why in unsigned.items()]


def _anchor_warning(lines: Sequence[Line]) -> list[str]:
    steps = dict.fromkeys(line.step for line, missed in facts_of(lines, AnchorsMissed) if not missed.anchored_on)
    if not steps:
        return []
    warning = (
        f"While {', '.join(steps)} ran, no cluster both showed its anchors of the journal and took new ones: nothing"
        " outside the journal's database proves what these steps read and wrote."
    )
    return [warning]


_OWN_DATABASE = (
    "The gates were answered in the database of run_procedure, not of the site's Airflow: who ran that command could"
    " answer them under every name."
)


def _opened_by(lines: Sequence[Line]) -> str | None:
    """Return the name of the person who opened the target manually, or began to; None if no person did."""
    opened = newest_fact(lines, TargetOpened)
    begun = newest_fact(lines, TargetToOpen)
    return (opened.by_hand if opened else None) or (begun.by_hand if begun else None)
