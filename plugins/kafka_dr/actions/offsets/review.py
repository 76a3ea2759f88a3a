"""Decide whether a second person must approve the translation, and require a valid approval."""

from __future__ import annotations

from collections.abc import Sequence

from kafka_dr.actions.loss_changes import loss_beyond_approval
from kafka_dr.domain.loss.loss_increase import LossIncrease, review_digest
from kafka_dr.errors import ApprovalMissing
from kafka_dr.procedure.entries import ConsumersDrained, OffsetsTranslated, ProducersFenced, TargetOpened
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Step


def require_reviewed(procedure: Run) -> None:
    """Require a valid approval of the plan and, if needed, a valid approval of translation and loss.

    The second approval is needed if `digest_to_review` returns a digest. Airflow is asked for the approvals, because
    the outcome of a gate in the journal does not prove that a person approved.

    Raises:
        ApprovalMissing: an approval is missing or invalid.
    """
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
        increases = "; ".join(f"{increase.topic}-{increase.partition}: {increase.why}" for increase in more[:5])
        raise ApprovalMissing(
            f"More is lost than was approved, on {len(more)} partitions",
            f"{increases}. {error.reason}: {error.seen}",
            error.next_step,
        ) from error


def digest_to_review(procedure: Run, more: Sequence[LossIncrease]) -> str | None:
    """Return the digest of translation and loss that a second person must approve; None if no approval is needed.

    An approval is needed if more is lost than was approved, a position is not exact, records are missing on the target,
    or topics or groups move that the plan does not name. The approval of a common plan that has this very translation
    is enough.

    Args:
        more: the partitions with more loss than was approved; empty if no partition has.
    """
    translated = procedure.progress.require(OffsetsTranslated)
    needs_review = (
        more
        or translated.exact != translated.positions
        or translated.holes
        or translated.cut
        or groups_created_later(procedure)
        or topics_created_later(procedure)
    )
    if not needs_review or (not more and procedure.approvals.covers_translation(translated.digest)):
        return None
    return review_digest(translated.digest, more)


def groups_created_later(procedure: Run) -> list[str]:
    """Return groups that move and were created after the plan; [] if the source is declared lost."""
    progress = procedure.progress
    return [] if progress.without_source else list(progress.require(ConsumersDrained).groups_since_forecast)


def topics_created_later(procedure: Run) -> list[str]:
    """Return topics that move and were created after the plan; [] if the source is declared lost."""
    progress = procedure.progress
    fenced = None if progress.without_source else progress.done(ProducersFenced)
    return [moved.topic for moved in (fenced and fenced.topics_since_forecast) or ()]


def require_opened(procedure: Run) -> None:
    """Require that open_target is done and, unless the target was opened manually, that the approvals are valid.

    Once the target was opened manually, a missing approval could no longer prevent the opening.
    """
    if procedure.progress.require(TargetOpened).by_hand is None:
        require_reviewed(procedure)
