"""Which run a command is about, with which params, and what of it is not run again."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kafka_dr.config.params import Request, quoted_value
from kafka_dr.config.settings import Topology
from kafka_dr.config.topology import Deadlines
from kafka_dr.domain.canonical_json import read_json
from kafka_dr.errors import BadInput, Refusal
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.hooks.journal.tables import JournalEntry
from kafka_dr.procedure.entries import LeaseTaken, ProcedureOpened, facts_of, newest_fact
from kafka_dr.procedure.run import Identity
from kafka_dr.procedures import PROCEDURES
from kafka_dr.vocabulary import Entry, Step

#: Run ids of runs that a command has started: Airflow's own scheduler does not know them.
_STARTED_HERE = "command__"
#: In a run's folder: the run as its private Airflow has it.
_FILE = "run.json"


@dataclass(frozen=True)
class RequestedRun:
    """A run, and the params it was or will be started with."""

    dag_id: str
    run_id: str
    conf: dict[str, Any]

    @property
    def procedure_id(self) -> str:
        """The procedure that it is, if it is none that acts on another."""
        return Identity(self.dag_id, self.run_id).procedure_id

    @property
    def started_here(self) -> bool:
        """Whether a command started it, so that Airflow's own database has no such run."""
        return self.run_id.startswith(_STARTED_HERE)


def new_run(dag_id: str, conf: dict[str, Any]) -> RequestedRun:
    """A run to be started now.

    Raises:
        BadInput: no such procedure, or a param that it does not take.
    """
    run = RequestedRun(dag_id, f"{_STARTED_HERE}{datetime.now(UTC).isoformat()}", conf)
    refuse_unknown_params(run)
    return run


def begun_run(name: str, journal: Journal, topology: Topology, folder: Path) -> RequestedRun:
    """The run with this run id or procedure id, as the journal or an earlier command's folder knows it.

    Raises:
        BadInput: neither knows it.
        Refusal: the procedure has ended.
    """
    known = list(facts_of(journal.entries(step=Step.OPEN_PROCEDURE, kind=Entry.OPENED), ProcedureOpened))
    for entry, opened in reversed(known):
        if name in (entry.procedure_id, opened.run_id):
            _refuse_if_closed(journal, entry.procedure_id)
            return _opened_run(opened, topology)
    for file in folder.glob(f"*/{_FILE}"):
        run, _ = read_run(file.parent)
        if name in (run.run_id, run.procedure_id):
            return run
    raise BadInput(
        f"There is no run {name!a}",
        f"neither the journal nor {folder} knows it",
        "See the ids of procedures in the evidence folder; of a run that is not there nothing was done.",
    )


def _opened_run(opened: ProcedureOpened, topology: Topology) -> RequestedRun:
    conf = params_of(Request(**opened.request), topology)
    conf = without_unstated_deadlines(PROCEDURES[opened.dag_id].params, conf)
    run = RequestedRun(opened.dag_id, opened.run_id, conf)
    refuse_unknown_params(run)
    return run


def _refuse_if_closed(journal: Journal, procedure_id: str) -> None:
    """A procedure that has let go of its lease is over."""
    taken = newest_fact(journal.entries(procedure_id, Step.OPEN_PROCEDURE, Entry.OUTCOME), LeaseTaken)
    lease = journal.lease(taken.pair) if taken else None
    if taken and (lease is None or lease.holder != procedure_id or lease.released_at is not None):
        raise Refusal(
            f"{procedure_id} has ended",
            f"outcome {lease.outcome if lease and lease.holder == procedure_id else 'unknown'}",
            "See its evidence; start a new procedure.",
        )


def refuse_unknown_params(run: RequestedRun) -> None:
    """Refuse a DAG that is no procedure, and params that its form does not have, by name."""
    if run.dag_id not in PROCEDURES:
        raise BadInput(f"There is no DAG {run.dag_id!a}", "", f"Name one of {', '.join(PROCEDURES)}.")
    params = PROCEDURES[run.dag_id].params
    unknown = sorted(set(run.conf) - params)
    if unknown:
        raise BadInput(
            f"{', '.join(map(quoted_value, unknown))}: no such param",
            f"params of this DAG: {', '.join(sorted(params))}",
            "Correct --conf; nothing was touched.",
        )


def without_unstated_deadlines(params: Collection[str], conf: dict[str, Any]) -> dict[str, Any]:
    """Without the deadlines that only the topology states: those are today's, whatever they were when the run began."""
    return {name: value for name, value in conf.items() if name in params or name not in Deadlines.model_fields}


def params_of(request: Request, topology: Topology) -> dict[str, Any]:
    """The params that a procedure was started with, as far as they say anything."""
    told = request.model_dump(mode="json")
    stated = topology.deadlines.model_dump()
    deadlines = {name: seconds for name, seconds in told.pop("deadlines").items() if stated[name] != seconds}
    return {
        name: value
        for name, value in {**told, **told.pop("choices"), **deadlines}.items()
        if name != "choices" and value not in ({}, None, False)
    }


def gates_to_ask(entries: Collection[JournalEntry]) -> set[str]:
    """Gates of a procedure whose target may be open: a database that does not know their answers asks them again."""
    return {entry.step for entry in entries if entry.kind == Entry.APPROVAL} if _may_be_open(entries) else set()


def steps_done_for_good(entries: Collection[JournalEntry]) -> set[str]:
    """Steps that a new run must not repeat: once the target may be open, all before the opening but the gates."""
    if not _may_be_open(entries):
        return set()
    order = [step.value for step in Step]
    before = set(order[: order.index(Step.OPEN_TARGET)])
    return before & {entry.step for entry in entries if entry.kind == Entry.OUTCOME} - gates_to_ask(entries)


def _may_be_open(entries: Iterable[JournalEntry]) -> bool:
    return any(entry.step == Step.OPEN_TARGET and entry.kind == Entry.INTENT for entry in entries)


def read_run(folder: Path) -> tuple[RequestedRun, list[str]]:
    """The run that a private Airflow has, and the tasks that wait until its gates are answered."""
    found = read_json((folder / _FILE).read_text(encoding="utf-8"))
    return RequestedRun(**found["run"]), found["after_gates"]


def write_run(folder: Path, run: RequestedRun, after_gates: list[str]) -> None:
    """Write down that a private Airflow has the run."""
    part = folder / f"{_FILE}.part"
    part.write_text(json.dumps({"run": asdict(run), "after_gates": after_gates}))
    part.rename(folder / _FILE)


def has_run(folder: Path) -> bool:
    """Whether a private Airflow has its run, whole."""
    return (folder / _FILE).exists()
