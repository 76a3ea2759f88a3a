"""The gate on translated positions, and on loss beyond the loss that approve_data_loss approved."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from kafka_dr.actions.loss_changes import loss_beyond_approval
from kafka_dr.actions.offsets.review import digest_to_review, groups_created_later, topics_created_later
from kafka_dr.domain.loss.loss_increase import increase_markdown, review_digest
from kafka_dr.domain.plain_text import first_few, table_cell
from kafka_dr.procedure.entries import MissingRange, OffsetsTranslated
from kafka_dr.procedure.run import Run
from kafka_dr.steps.gate import ProcedureGate, Question
from kafka_dr.vocabulary import Step, TranslationClass

_MAX_ROWS = 50


class ReviewTranslation(ProcedureGate):
    """Ask if positions are inexact, records are missing on the target, or more is lost or moves than was approved.

    Otherwise the gate passes by itself.
    """

    def wait_seconds(self, procedure: Run) -> float:
        """Return how many seconds to wait for an answer: before open_target has begun, at most to the fence's deadline.

        Once open_target has begun, that deadline ends no step, and the wait is as long as at other gates.
        """
        deadline, limit = procedure.progress.fence_deadline(), super().wait_seconds(procedure)
        if deadline is None or procedure.progress.began(Step.OPEN_TARGET) is not None:
            return limit
        return max(1.0, min(limit, deadline - procedure.progress.now()))

    def digest(self, procedure: Run) -> str | None:
        """Return the digest of translation and loss beyond the approved loss; None if no approval is needed."""
        return digest_to_review(procedure, loss_beyond_approval(procedure))

    def question(self, procedure: Run) -> Question:
        """Return the question; the body shows the loss beyond the approved loss, and inexact positions, worst first."""
        increase, result = loss_beyond_approval(procedure), procedure.progress.require(OffsetsTranslated)
        without_source = procedure.progress.without_source
        new_groups, new_topics = groups_created_later(procedure), topics_created_later(procedure)
        rows = procedure.artifacts.load(result.translation)
        inexact = rows[~rows["exact"]].sort_values("bound", ascending=False, na_position="first")
        created = [
            f"{len(names)} {kind} were created after the forecast and move too:"
            f" {table_cell(first_few(names, 20)) or 'none'}."
            for kind, names in (("groups", new_groups), ("topics", new_topics))
        ]
        refused = int((inexact["class"] == TranslationClass.REFUSED.value).sum())
        body = "\n".join(
            [
                *increase_markdown(increase),
                f"{len(inexact)} of {len(rows)} positions are not exact; {refused} of them have no position at all.",
                _describe_rereads(result),
                (
                    f"{_count(result.holes)} records{'' if without_source else ' below the cut-off'} were not found on"
                    " the target."
                ),
                (f"{_count(result.cut)} unread records have already been deleted from the target by its retention."),
                *([] if without_source else created),
                "",
                "| group | partition | position | on the target | class | may read again | evidence |",
                "| --- | --- | --- | --- | --- | --- | --- |",
                *[_table_row(r) for r in inexact.head(_MAX_ROWS).to_dict("records")],
                "",
                f"Translation digest `{result.digest}`",
                *(
                    [f"Digest of both, translation and loss: `{review_digest(result.digest, increase)}`"]
                    if increase
                    else []
                ),
            ]
        )
        subject = (
            "Lose more than was approved, and commit these positions? Translation and loss"
            if increase
            else "Commit these positions? Translation"
        )
        inexact_count = f"{len(inexact)} of {len(rows)} positions are not exact."
        return Question(subject, body, (inexact_count, _describe_rereads(result)))


def _describe_rereads(translated: OffsetsTranslated) -> str:
    """Return sentences on the most records that a group reads again, and on positions that the last sample may lack."""
    largest = "unknown for some positions" if translated.bound is None else f"at most {translated.bound}"
    moved = translated.may_have_moved
    moved_note = (
        f" {moved} positions are of groups that may have committed later positions than the last sample has: the bound"
        " assumes that these groups have read all records on the target."
        if moved
        else ""
    )
    return f"Records that a group reads again on one partition: {largest}.{moved_note}"


def _count(ranges: Sequence[MissingRange]) -> int:
    return sum(missing.records for missing in ranges)


def _table_row(row: Mapping[Hashable, Any]) -> str:
    cells = [
        row["group"],
        f"{row['topic']}-{row['partition']}",
        row["position"],
        row["target_position"],
        row["class"],
        row["bound"],
        row["evidence"],
    ]
    return "| " + " | ".join(table_cell(str(c)) for c in cells) + " |"
