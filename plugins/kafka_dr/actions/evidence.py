"""Closing a procedure: the evidence, whatever the outcome, and the lease."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kafka_dr.actions.loss_changes import loss_beyond_approval, loss_since
from kafka_dr.domain.evidence.evidence import LossSince, evidence_of
from kafka_dr.domain.evidence.summary import summarise_evidence
from kafka_dr.errors import BadInput, Contradiction
from kafka_dr.hooks.journal.tables import JournalEntry
from kafka_dr.pages import render_page
from kafka_dr.procedure.entries import (
    ClosingBegun,
    DataLossAssessed,
    MirrorMakerStopped,
    ProcedureClosed,
    ProducersFenced,
    Receipt,
    newest_fact,
)
from kafka_dr.procedure.find import run_with_bad_params
from kafka_dr.procedure.progress import not_done
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Entry, Outcome, Step


def file_evidence(procedure: Run, epoch: int) -> ProcedureClosed:
    """Write a procedure's evidence and the entry that closes it.

    Args:
        epoch: of the lease, 0 without one; a procedure that is continued is closed under the lease of the one that goes
            on from it.
    """
    closing_at = _closing_at(procedure, epoch)
    before = [
        e
        for e in procedure.journal.entries(step=Step.CLOSE_PROCEDURE, kind=Entry.CLOSED)
        if e.procedure_id != procedure.id and e.sequence < closing_at.sequence
    ]
    previous = newest_fact(before, ProcedureClosed)
    evidence = assemble_evidence(procedure, closing_at, previous.digest if previous else None)
    write_evidence(procedure.artifacts.folder, evidence)
    closed = ProcedureClosed.from_payload(evidence)
    procedure.journal.append(procedure.id, Step.CLOSE_PROCEDURE, closed.kind, epoch, closed.payload())
    return closed


def _closing_at(procedure: Run, epoch: int) -> JournalEntry:
    """The entry at which the procedure is closed: every process that closes it assembles identical evidence."""
    entries = procedure.journal.entries(procedure.id)
    last = max((e.sequence for e in entries if e.step != Step.CLOSE_PROCEDURE), default=0)
    begun = [e for e in entries if e.step == Step.CLOSE_PROCEDURE and e.kind == Entry.INTENT and e.sequence > last]
    if begun:
        return begun[0]
    begins = ClosingBegun(after=last)
    return procedure.journal.append(procedure.id, Step.CLOSE_PROCEDURE, begins.kind, epoch, begins.payload())


def assemble_evidence(procedure: Run, closing_at: JournalEntry, previous_digest: str | None) -> dict[str, Any]:
    """The evidence of a procedure as its journal stood at the entry that closes it."""
    entries = [
        e
        for e in procedure.journal.entries(procedure.id)
        if e.step != Step.CLOSE_PROCEDURE and e.sequence < closing_at.sequence
    ]
    request = {
        "dag_id": procedure.identity.dag_id,
        "source": procedure.request.source,
        "target": procedure.request.target,
        "reason": procedure.request.reason,
    }
    problems: list[str] = []
    # Without its source a procedure has the cut-off that a continued one had proven, if any.
    progress = procedure.progress
    fenced = progress.done(DataLossAssessed) if progress.without_source else progress.done(ProducersFenced)
    stopped = progress.done(MirrorMakerStopped)
    bounds = {
        "cut_off": _offsets(procedure, fenced.cut_off if fenced else None, problems),
        "boundary": _offsets(procedure, stopped.boundary if stopped else None, problems),
    }
    since = _loss_since(procedure, closing_at.sequence, problems)
    return evidence_of(
        procedure.id,
        request,
        entries,
        [s.value for s in Step],
        bounds,
        closing_at.at.isoformat(),
        previous_digest,
        problems,
        since,
    )


def _offsets(procedure: Run, receipt: Receipt | None, problems: list[str]) -> list[dict[Any, Any]]:
    try:
        return [] if receipt is None else procedure.artifacts.load(receipt).to_dict("records")
    except Contradiction as error:
        problems.append(str(error))
        return []


def _loss_since(procedure: Run, until: int, problems: list[str]) -> LossSince | None:
    """Loss known before the closing began; None without an inventory or its files: the approved loss then stands."""
    if procedure.progress.done(DataLossAssessed) is None:
        return None
    try:
        return LossSince(
            loss_since(procedure, until), [one._asdict() for one in loss_beyond_approval(procedure, until)]
        )
    except Contradiction as error:
        problems.append(str(error))
        return None


def close_run_with_bad_params(context: Any, error: BadInput) -> str:
    """Evidence and closing entry of a run that was refused for its params; answers how it ended."""
    procedure, refused = run_with_bad_params(context), f"{Outcome.REFUSED.value}: {Step.OPEN_PROCEDURE.value}: {error}"
    if procedure is None:
        return refused
    journal = procedure.journal
    if procedure.progress.opened is not None:
        return f"failed: the procedure was opened, and what it was given cannot be used any more: {error}"
    if journal.last(procedure.id, Step.CLOSE_PROCEDURE, Entry.CLOSED) is not None:
        return refused
    if journal.last(procedure.id, Step.OPEN_PROCEDURE, Entry.REFUSAL) is None:
        # Evidence that this journal does not know may be of what was really done.
        if (procedure.artifacts.folder / "evidence.json").exists():
            return refused
        journal.append(procedure.id, Step.OPEN_PROCEDURE, Entry.REFUSAL, 0, not_done(error).payload())
    file_evidence(procedure, 0)
    return refused


def evidence_text(evidence: dict[str, Any]) -> str:
    """evidence.json, byte for byte."""
    return json.dumps(evidence, indent=2, ensure_ascii=False) + "\n"


def write_evidence(folder: Path, evidence: dict[str, Any]) -> None:
    """evidence.json and the page a person reads, each written aside and renamed."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("evidence.json", evidence_text(evidence)), ("evidence.html", evidence_page(evidence))):
        aside = folder / f".{name}.{uuid.uuid4().hex}.writing"
        aside.write_text(text, encoding="utf-8")
        aside.replace(folder / name)


def evidence_page(evidence: Mapping[str, Any]) -> str:
    """HTML of the evidence; every value is escaped."""
    return render_page("evidence.html.j2", e=evidence, story=summarise_evidence(evidence))
