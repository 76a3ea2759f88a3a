"""When a second person must see the translation."""

from __future__ import annotations

from collections.abc import Sequence

from kafka_dr.actions.loss_changes import loss_beyond_approval
from kafka_dr.domain.loss.loss_increase import LossIncrease, review_digest
from kafka_dr.errors import ApprovalMissing
from kafka_dr.procedure.entries import (
    ConsumersDrained,
    OffsetsTranslated,
    TargetOpened,
)
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Step


def require_reviewed(procedure: Run) -> None:
    """Require approval of the plan, and where due of translation and grown loss, whatever the gate's outcome says."""
    procedure.approvals.require_plan()
    procedure.progress.outcome_entry(Step.REVIEW_TRANSLATION)
    more = loss_beyond_approval(procedure)
    digest = digest_to_review(procedure, more)
    if digest is None:
        return
    try:
        procedure.approvals.require(Step.REVIEW_TRANSLATION, digest)
    except ApprovalMissing as error:
        if not more:
            raise
        told = "; ".join(f"{one.topic}-{one.partition}: {one.why}" for one in more[:5])
        raise ApprovalMissing(
            f"More is lost than was approved, on {len(more)} partitions",
            f"{told}. {error.reason}: {error.seen}",
            error.next_step,
        ) from error


def digest_to_review(procedure: Run, more: Sequence[LossIncrease]) -> str | None:
    """Digest of the translation and of a loss beyond what was approved; None where no person must see them.

    A person must where more is lost, a position is not exact, records are missing, or groups move that the plan does
    not name.
    """
    found = procedure.progress.require(OffsetsTranslated)
    asked = more or found.exact != found.positions or found.holes or found.cut or groups_born(procedure)
    return review_digest(found.digest, more) if asked else None


def groups_born(procedure: Run) -> list[str]:
    """Groups that move though the plan does not name them: those born between it and the fence."""
    progress = procedure.progress
    return [] if progress.without_source else list(progress.require(ConsumersDrained).groups_since_forecast)


def require_opened(procedure: Run) -> None:
    """Require an open target: by this procedure with valid approvals, or by hand, as asking would undo nothing."""
    if procedure.progress.require(TargetOpened).by_hand is None:
        require_reviewed(procedure)
