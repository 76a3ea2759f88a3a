"""Remove what a killed, preempted or half-cleaned drill has left on the clusters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from kafka_dr.actions.drill.given_up import close_given_up_drill, note_given_up
from kafka_dr.actions.drill.removal import remove_drill
from kafka_dr.config.params import Request
from kafka_dr.config.topology import Topology
from kafka_dr.errors import Refusal, SwitchbackError
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import DrillCleaned, DrillToPrepare, ProcedureOpened, facts_of
from kafka_dr.procedure.run import Identity, Run, opened_by
from kafka_dr.vocabulary import Entry, Step

#: Under this name entries about drills that are closed stand in the journal: their lease is released.
JANITOR = "schedule_drills"
CLEANED = "cleaned"


class JanitorAuthority:
    """The right to remove what a drill has left that acts no more; it follows from the drill's intent to make it."""

    def __init__(self, journal: Journal, drill_id: str) -> None:
        self._journal, self._drill_id = journal, drill_id

    def hold(self) -> None:
        """Return: nobody else acts for a closed drill, and what is removed has its literal names."""

    def may_undo(self) -> bool:
        """Return False: nothing is made that would have to be undone."""
        return False

    def write(self, step: str, kind: Entry, payload: Mapping[str, Any]) -> None:
        """Append one entry under the janitor's name, which names the drill."""
        self._journal.append(JANITOR, step, kind, 0, {**payload, "drill_id": self._drill_id})


def left_drills(journal: Journal) -> Iterator[ProcedureOpened]:
    """Yield the openings of drills that have made something, have ended or outlived their time, and are not cleaned."""
    cleaned = {
        fact.drill_id or entry.procedure_id
        for entry, fact in facts_of(journal.entries(step=Step.CLEAN_DRILL, kind=Entry.OUTCOME), DrillCleaned)
        if fact.cleaned
    }
    for entry, made in facts_of(journal.entries(step=Step.PREPARE_DRILL, kind=Entry.INTENT), DrillToPrepare):
        opened = opened_by(journal, entry.procedure_id)
        if entry.procedure_id in cleaned or opened is None:
            continue
        if _is_closed(journal, entry.procedure_id) or datetime.fromisoformat(made.ends_at) < journal.now():
            cleaned.add(entry.procedure_id)
            yield opened


def clean_left_drill(opened: ProcedureOpened, journal: Journal, topology: Topology, connections: Any) -> list[str]:
    """Remove what one drill has left, and close the drill if nobody has; return what is still left.

    Raises:
        Refusal: a procedure holds the pair of clusters: its work comes first.
    """
    request, identity = Request(**opened.request), Identity(opened.dag_id, opened.run_id)
    closed = _is_closed(journal, identity.procedure_id) or _waits_for_signature(journal, identity.procedure_id)
    authority = JanitorAuthority(journal, identity.procedure_id) if closed else None
    procedure = Run(identity, request, journal, connections.systems(request, topology), authority)
    try:
        procedure.refuse_if_held()
        _refuse_beside_live_drill(procedure)
        if not closed:
            procedure.lease.take_new_epoch()
        last = journal.entries(procedure.id)[-1]
        outcome = remove_drill(procedure, Step.CLEAN_DRILL)
        if not closed:
            # Before the outcome: if this process is killed after it, the next one closes the drill without delay.
            note_given_up(procedure, last)
        record_fact(procedure.authority, Step.CLEAN_DRILL, outcome)
        if not closed:
            close_given_up_drill(procedure, last)
        return list(outcome.left)
    finally:
        procedure.close()


def _refuse_beside_live_drill(procedure: Run) -> None:
    held = procedure.journal.lease(procedure.pair)
    if held is not None and held.released_at is None and held.holder != procedure.id:
        raise Refusal(
            "Another drill runs between these clusters",
            held.holder,
            "Both share MirrorMaker 2's internal topics: the next run after its end cleans up.",
        )


def _waits_for_signature(journal: Journal, drill_id: str) -> bool:
    """Whether the drill has come past its clean-up: then it closes itself."""
    return (
        journal.last(drill_id, Step.CLEAN_DRILL, Entry.OUTCOME) is not None
        or journal.last(drill_id, Step.SIGN_OFF_DRILL, Entry.INTENT) is not None
    )


def _is_closed(journal: Journal, drill_id: str) -> bool:
    return journal.last(drill_id, Step.CLOSE_PROCEDURE, Entry.CLOSED) is not None


def clean_left_drills(journal: Journal, topology: Topology, connections: Any) -> dict[str, str]:
    """Clean up every drill that has left something; return drill -> what is still left, or why it was not cleaned."""
    answers = {}
    for opened in left_drills(journal):
        name = Identity(opened.dag_id, opened.run_id).procedure_id
        try:
            answers[name] = "; ".join(clean_left_drill(opened, journal, topology, connections)) or CLEANED
        except SwitchbackError as error:
            answers[name] = str(error)
    return answers
