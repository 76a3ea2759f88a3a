"""Sentences for the evidence page: where clients are now, and which positions their groups have on the target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka_dr.domain.evidence.fields import Evidence, figures_by_step
from kafka_dr.domain.evidence.loss_chart import certainly_lost
from kafka_dr.domain.evidence.timeline import client_downtime
from kafka_dr.domain.plain_text import count_of, format_duration, format_moment, format_number
from kafka_dr.procedures import UNPLANNED_FAILOVER
from kafka_dr.vocabulary import Outcome, Step, TranslationClass


def client_whereabouts(e: Evidence) -> str:
    """Return a sentence on where clients are now, as far as the evidence proves it."""
    if e.get("continued_by"):
        return f"The evidence of {e['continued_by']} states where clients are."
    state = {step["id"]: step["state"] for step in e["steps"]}
    span = client_downtime(e)
    if state.get(Step.RETURN_TO_SOURCE) == "done" or (span is None and Step.OPEN_TARGET not in state):
        return _on_source(e)
    if state.get(Step.REDIRECT_CLIENTS) == "done":
        return (
            f"Clients were fenced for {format_duration(span.seconds)} and now work on {e['target']}."
            if span
            else f"Clients work on {e['target']}."
        )
    since = f"fenced since {format_moment(span.began.isoformat())}" if span else "stopped"
    return f"Clients are {since}: {_why_still(e, state)}."


def _on_source(e: Evidence) -> str:
    span, earlier = client_downtime(e), e.get("continues")
    if earlier:
        fenced = (
            f"{e['source']} stays fenced until return_to_source of {earlier['procedure_id']} is done"
            if earlier["fenced"]
            else f"{earlier['procedure_id']} had not fenced {e['source']}"
        )
        return f"Clients are as {earlier['procedure_id']} left them: {fenced}."
    if span is None and e["dag_id"] == UNPLANNED_FAILOVER.dag_id:
        return f"This run moved no client. {unmoved_clients(e['source'])}"
    if span is None:
        return f"Clients never left {e['source']} and were not stopped."
    downtime = format_duration(span.seconds)
    return f"Clients were fenced for {downtime} and are back on {e['source']}; the fence is lifted."


def _why_still(e: Evidence, state: Mapping[str, str]) -> str:
    if state.get(Step.OPEN_TARGET) == "done":
        return f"{e['target']} is open, but clients were not sent to {e['target']}"
    if Step.OPEN_TARGET in state:
        return f"{e['source']} is fenced, and whether {e['target']} was opened is unknown"
    if Step.RETURN_TO_SOURCE in state:
        return f"the return to {e['source']} has begun and is not finished"
    return f"{e['source']} is fenced and {e['target']} is not open"


def unmoved_clients(source: str) -> str:
    """Return a sentence on where clients are if this unplanned failover has not moved them.

    The sentence names the source, and allows for a move by an earlier procedure, which this run's entries do not show.
    """
    return (
        f"Clients work on {source}, or on no cluster if {source} does not serve clients, unless an earlier procedure"
        " moved them."
    )


def placement_sentence(e: Evidence) -> str:
    """Return how many positions were committed, how exact they are, and how many records are lost, in sentences."""
    if e["outcome"] != Outcome.COMPLETED:
        losses = f"{lost_records(e)} of {e['source']} were not found on {e['target']}: see Loss. " if e["loss"] else ""
        return losses + (_not_final(e) if e["outcome"] == Outcome.FAILED else f"No client was moved to {e['target']}.")
    by_hand = figures_by_step(e).get(Step.OPEN_TARGET, {}).get("by_hand")
    if by_hand and not figures_by_step(e).get(Step.TRANSLATE_OFFSETS):
        return (
            f"{by_hand} opened {e['target']} manually before positions were translated: neither the positions of the"
            f" groups on {e['target']} nor the completeness of its records was proven."
        )
    return f"{_placed(e)} {_losses(e)}"


def _not_final(e: Evidence) -> str:
    return (
        f"{e['continued_by']} uses what this run had proven, as far as the proofs are still valid."
        if e.get("continued_by")
        else "No statement on this page is final before the procedure has ended."
    )


def _placed(e: Evidence) -> str:
    refused, bound = e["classes"].get(TranslationClass.REFUSED, 0), e["rereads"]["bound"]
    placed = sum(e["classes"].values()) - refused
    left_out = f", {format_number(refused)} were refused and not placed" if refused else ""
    if bound is None:
        return f"{count_of(placed, 'position')} were placed and read back{left_out}."
    exact = (
        "; every placed position is exact"
        if bound == 0
        else f"; one group may read up to {count_of(bound, 'record')} again"
    )
    return f"{count_of(placed, 'position')} were placed and read back{left_out}{exact}."


def _losses(e: Evidence) -> str:
    if e["loss"]:
        return f"{lost_records(e)} are not on {e['target']}: see Loss."
    return f"No record was lost: all records below the cut-off are on {e['target']}."


def lost_records(e: Evidence) -> str:
    """Return how many records are lost, as text: exact if every row of loss has a count, else a lower bound."""
    certain = sum(_certain_records(row) for row in e["loss"])
    if all(row.get("records") is not None for row in e["loss"]):
        return count_of(certain, "record")
    return f"At least {count_of(certain, 'record')}" if certain else "An unknown number of records"


def _certain_records(row: Mapping[str, Any]) -> int:
    counted: int | None = row.get("records")
    return certainly_lost(row) if counted is None else counted
