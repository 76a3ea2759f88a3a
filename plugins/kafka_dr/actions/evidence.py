"""Write the evidence of a procedure, whatever its outcome, and the journal entry that closes the procedure."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kafka_dr.actions.drill_report import drill_report_files
from kafka_dr.actions.loss_changes import loss_beyond_approval, loss_since
from kafka_dr.actions.notices_sent import notices_about
from kafka_dr.domain.evidence.evidence import LossSince, evidence_of
from kafka_dr.domain.evidence.summary import summarise_evidence
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import BadInput, Contradiction
from kafka_dr.hooks.journal.tables import JournalEntry
from kafka_dr.hooks.private_files import private_file, private_folder
from kafka_dr.pages import render_page
from kafka_dr.procedure.entries import (
    ClosingBegun,
    DataLossAssessed,
    JournalAccepted,
    MirrorMakerStopped,
    Planned,
    ProcedureClosed,
    ProducersFenced,
    Receipt,
    facts_of,
    newest_fact,
)
from kafka_dr.procedure.find import run_with_bad_params
from kafka_dr.procedure.progress import not_done
from kafka_dr.procedure.run import Run
from kafka_dr.procedures import PROCEDURES
from kafka_dr.vocabulary import Entry, Outcome, Step


def file_evidence(
    procedure: Run,
    epoch: int,
    complete: Callable[[dict[str, Any]], dict[str, Any]] = lambda evidence: evidence,
) -> ProcedureClosed:
    """Write a procedure's evidence files, and append the closing entry to the journal and return it.

    Args:
        epoch: the lease's epoch; 0 without a lease. If an unplanned failover continues `procedure`, the epoch is that
            of the unplanned failover.
        complete: returns the evidence with what a kind of procedure adds to it, and with the digest over all.
    """
    closing_at = _closing_at(procedure, epoch)
    earlier_closings = [
        entry
        for entry in procedure.journal.entries(step=Step.CLOSE_PROCEDURE, kind=Entry.CLOSED)
        if entry.procedure_id != procedure.id and entry.sequence < closing_at.sequence
    ]
    previous = newest_fact(earlier_closings, ProcedureClosed)
    evidence = complete(assemble_evidence(procedure, closing_at, previous.digest if previous else None))
    for path in write_evidence(procedure.artifacts.folder, evidence):
        procedure.artifacts.store_if_possible(path)
    closed = ProcedureClosed.from_payload(evidence)
    closed = procedure.signatures.sign_fact(procedure.id, Step.CLOSE_PROCEDURE, closed)
    procedure.journal.append(procedure.id, Step.CLOSE_PROCEDURE, closed.kind, epoch, closed.payload())
    return closed


def _closing_at(procedure: Run, epoch: int) -> JournalEntry:
    """Return the journal entry up to which evidence is assembled; append the entry if the journal has none.

    Two processes that close the same procedure use the same entry, and so write identical evidence.
    """
    entries = procedure.journal.entries(procedure.id)
    last = max((entry.sequence for entry in entries if entry.step != Step.CLOSE_PROCEDURE), default=0)
    closing_intents = [
        entry
        for entry in entries
        if entry.step == Step.CLOSE_PROCEDURE and entry.kind == Entry.INTENT and entry.sequence > last
    ]
    if closing_intents:
        return closing_intents[0]
    begins = ClosingBegun(after=last, clock=procedure.journal.clock_name, notices=notices_about(procedure))
    return procedure.journal.append(procedure.id, Step.CLOSE_PROCEDURE, begins.kind, epoch, begins.payload())


def assemble_evidence(procedure: Run, closing_at: JournalEntry, previous_digest: str | None) -> dict[str, Any]:
    """Return the content of evidence.json, from the procedure's journal entries before `closing_at`.

    Args:
        previous_digest: digest of the evidence of the procedure that was closed before; None for the first procedure.
    """
    entries = [
        entry
        for entry in procedure.journal.entries(procedure.id)
        if entry.step != Step.CLOSE_PROCEDURE and entry.sequence < closing_at.sequence
    ]
    request = {
        "dag_id": procedure.identity.dag_id,
        "source": procedure.request.source,
        "target": procedure.request.target,
        "reason": procedure.request.reason,
    }
    problems = _accepted_losses(procedure, entries, closing_at.sequence)
    # If the source is declared lost, the only cut-off is that of a continued planned run, if any.
    progress = procedure.progress
    fenced = progress.done(DataLossAssessed) if progress.without_source else progress.done(ProducersFenced)
    stopped = progress.done(MirrorMakerStopped)
    # Where a flow's log ends belong together, these are the pair; else the fence gives the cut-off.
    cut_off = stopped.cut_off if stopped and stopped.cut_off else fenced.cut_off if fenced else None
    bounds = {
        "cut_off": _offsets(procedure, cut_off, problems),
        "boundary": _offsets(procedure, stopped.boundary if stopped else None, problems),
    }
    since = _loss_since(procedure, closing_at.sequence, problems)
    return evidence_of(
        procedure.id,
        request,
        entries,
        _order_of(procedure.identity.dag_id),
        bounds,
        closing_at.at.isoformat(),
        previous_digest,
        problems,
        since,
        _plan(procedure, entries, problems),
        closing=ClosingBegun.from_payload(closing_at.payload),
        files_at=procedure.artifacts.stored_at,
    )


def _order_of(dag_id: str) -> list[str]:
    """Return all steps: those of the DAG first, in its order."""
    definition = PROCEDURES.get(dag_id)
    return [step.value for step in dict.fromkeys([*(definition.journal_steps if definition else ()), *Step])]


def _accepted_losses(procedure: Run, entries: list[JournalEntry], until: int) -> list[str]:
    """Return who accepted the journal after a run's first entry, what the journal lacked, and why, each time.

    Args:
        entries: of the run, all before sequence number `until`.
    """
    began = min((entry.sequence for entry in entries), default=until)
    accepted = facts_of(procedure.journal.entries_of_steps([Step.OPEN_PROCEDURE]), JournalAccepted)
    return [
        f"{fact.accepted_by} accepted the journal as it was: {first_few(fact.lacked, 20, '; ')}. Reason given:"
        f" {fact.reason}"
        for entry, fact in accepted
        if began < entry.sequence < until
    ]


def _plan(procedure: Run, entries: list[JournalEntry], problems: list[str]) -> Mapping[str, Any] | None:
    """Return the newest plan; None without one. If its file cannot be read, the reason is added to `problems`."""
    planned = newest_fact(entries, Planned)
    try:
        return procedure.progress.with_plan(planned).plan if planned else None
    except Contradiction as error:
        problems.append(str(error))
        return None


def _offsets(procedure: Run, receipt: Receipt | None, problems: list[str]) -> list[dict[Any, Any]]:
    try:
        return [] if receipt is None else procedure.artifacts.load(receipt).to_dict("records")
    except Contradiction as error:
        problems.append(str(error))
        return []


def _loss_since(procedure: Run, until: int, problems: list[str]) -> LossSince | None:
    """Return the lost ranges as corrected after the approval, and the partitions with more loss than approved.

    Corrections come from journal entries before sequence number `until`. None if loss was not assessed, or if a file
    with lost ranges cannot be read. In the second case the reason is added to `problems`, and the evidence shows the
    loss as it was approved.
    """
    if procedure.progress.done(DataLossAssessed) is None:
        return None
    try:
        return LossSince(
            loss_since(procedure, until), [increase._asdict() for increase in loss_beyond_approval(procedure, until)]
        )
    except Contradiction as error:
        problems.append(str(error))
        return None


def close_run_with_bad_params(context: Any, error: BadInput) -> str:
    """Close a run that was refused because of its params, with evidence; return the run's outcome as text.

    Nothing is written in four cases: the topology cannot be used; the run had opened a procedure; the run is closed
    already; or evidence.json exists, and the journal does not record that the run was refused. In the last case
    evidence.json may be the evidence of a run that did act.
    """
    procedure, refused = run_with_bad_params(context), f"{Outcome.REFUSED.value}: {Step.OPEN_PROCEDURE.value}: {error}"
    if procedure is None:
        return refused
    journal = procedure.journal
    if procedure.progress.opened is not None:
        return f"failed: the procedure was opened, and its params or the topology cannot be used any more: {error}"
    if journal.last(procedure.id, Step.CLOSE_PROCEDURE, Entry.CLOSED) is not None:
        return refused
    if journal.last(procedure.id, Step.OPEN_PROCEDURE, Entry.REFUSAL) is None:
        # An evidence file whose run has no journal entries may be the file of a run that did act: never overwrite it.
        written = procedure.artifacts.folder / "evidence.json"
        if procedure.artifacts.files.refresh(written) or written.exists():
            return refused
        journal.append(procedure.id, Step.OPEN_PROCEDURE, Entry.REFUSAL, 0, not_done(error).payload())
    file_evidence(procedure, 0)
    return refused


def evidence_text(evidence: dict[str, Any]) -> str:
    """Return the exact text of evidence.json."""
    return json.dumps(evidence, indent=2, ensure_ascii=False) + "\n"


def write_evidence(folder: Path, evidence: dict[str, Any]) -> list[Path]:
    """Write evidence.json, evidence.html and the report of a drill, each to a temporary file that is then renamed.

    Return the paths of the files.
    """
    private_folder(folder)
    written = []
    texts = {"evidence.json": evidence_text(evidence), "evidence.html": evidence_page(evidence)}
    for name, text in {**texts, **drill_report_files(evidence)}.items():
        aside = private_file(folder / f".{name}.{uuid.uuid4().hex}.writing")
        aside.write_text(text, encoding="utf-8")
        written.append(aside.replace(folder / name))
    return written


def evidence_page(evidence: Mapping[str, Any]) -> str:
    """Return the evidence as an HTML page, in which every value is escaped."""
    return render_page("evidence.html.j2", e=evidence, story=summarise_evidence(evidence))
