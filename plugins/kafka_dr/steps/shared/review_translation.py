"""Gates: questions that a second person answers."""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from kafka_dr.actions.loss_changes import loss_beyond_approval
from kafka_dr.actions.offsets.review import digest_to_review, groups_born
from kafka_dr.domain.loss.loss_increase import increase_markdown, review_digest
from kafka_dr.domain.plain_text import first_few
from kafka_dr.domain.readiness.plan import table_cell
from kafka_dr.procedure.entries import MissingRange, OffsetsTranslated
from kafka_dr.procedure.run import Run
from kafka_dr.steps.gate import ProcedureGate, Question
from kafka_dr.vocabulary import TranslationClass

_SHOWN = 50


class ReviewTranslation(ProcedureGate):
    """Pass when all positions are exact and no loss exceeds the approved one; else show what differs, and ask."""

    def wait_seconds(self, procedure: Run) -> float:
        """Clients are fenced meanwhile: no longer than the fence may last, where there is one."""
        deadline, longest = procedure.progress.fence_deadline(), super().wait_seconds(procedure)
        return longest if deadline is None else max(1.0, min(longest, deadline - time.time()))

    def digest(self, procedure: Run) -> str | None:
        """Of the translation, and of what is lost beyond what was approved."""
        return digest_to_review(procedure, loss_beyond_approval(procedure))

    def question(self, procedure: Run) -> Question:
        """What is lost beyond what was approved, and the positions that are not exact, worst first."""
        more, found = loss_beyond_approval(procedure), procedure.progress.require(OffsetsTranslated)
        born = groups_born(procedure)
        rows = procedure.artifacts.load(found.translation)
        inexact = rows[~rows["exact"]].sort_values("bound", ascending=False, na_position="first")
        refused = int((inexact["class"] == TranslationClass.REFUSED.value).sum())
        body = "\n".join(
            [
                *increase_markdown(more),
                f"{len(inexact)} of {len(rows)} positions are not exact; {refused} of them have no position at all.",
                _rereads(found),
                f"{_records(found.holes)} records below the cut-off were not found on the target.",
                (f"{_records(found.cut)} unread records have already been deleted from the target by its retention."),
                (
                    f"{len(born)} groups were born after the forecast and move too:"
                    f" {table_cell(first_few(born, 20)) or 'none'}."
                ),
                "",
                "| group | partition | position | on the target | class | may read again | evidence |",
                "| --- | --- | --- | --- | --- | --- | --- |",
                *[_row(r) for r in inexact.head(_SHOWN).to_dict("records")],
                "",
                f"Translation digest `{found.digest}`",
                *([f"Digest of both, translation and loss: `{review_digest(found.digest, more)}`"] if more else []),
            ]
        )
        asked = (
            "Lose more than was approved, and commit these positions? Translation and loss"
            if more
            else "Commit these positions? Translation"
        )
        return Question(asked, body)


def _rereads(translated: OffsetsTranslated) -> str:
    """Tell the most rereads of one position, and how many positions may have moved since they were seen."""
    largest = "of some nobody knows how many" if translated.bound is None else f"at most {translated.bound}"
    moved = translated.may_have_moved
    since = (
        f" {moved} positions are of groups that may have gone on since they were seen: they are taken to have read all"
        " that the target holds."
        if moved
        else ""
    )
    return f"Records that one position reads again: {largest}.{since}"


def _records(ranges: Sequence[MissingRange]) -> int:
    return sum(found.records for found in ranges)


def _row(row: Mapping[Hashable, Any]) -> str:
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
