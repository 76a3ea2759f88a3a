"""The run that run_procedure starts or resumes: its params, and which of its steps must not run again.

The site's Airflow runs the DAGs on other days; the command's Airflow, with its database in a folder, runs this run now.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kafka_dr.config.choices import quoted_value
from kafka_dr.config.deadlines import Deadlines
from kafka_dr.config.params import Request
from kafka_dr.config.settings import Topology
from kafka_dr.domain.canonical_json import read_json
from kafka_dr.errors import BadInput, Refusal
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.hooks.journal.tables import JournalEntry
from kafka_dr.hooks.private_files import private_file
from kafka_dr.procedure.entries import LeaseTaken, ProcedureOpened, facts_of, newest_fact
from kafka_dr.procedure.run import Identity
from kafka_dr.procedures import COMMAND_RUN, PROCEDURES
from kafka_dr.vocabulary import Entry, Step

#: File in the folder of a command's Airflow; names the run in the database of that folder.
_FILE = "run.json"


@dataclass(frozen=True)
class RequestedRun:
    """A DAG run to start or resume; `conf` has the params to trigger it with, name -> value."""

    dag_id: str
    run_id: str
    conf: dict[str, Any]

    @property
    def procedure_id(self) -> str:
        """Return the id of the run's procedure; unused for abort_procedure, which acts on another run's procedure."""
        return Identity(self.dag_id, self.run_id).procedure_id

    @property
    def started_here(self) -> bool:
        """Whether run_procedure started the run; the database of the site's Airflow then does not have the run."""
        return self.run_id.startswith(COMMAND_RUN)


def new_run(dag_id: str, conf: dict[str, Any]) -> RequestedRun:
    """Return a new run, whose run id contains the present time; nothing is started yet.

    Raises:
        BadInput: there is no procedure of this name, or the procedure does not take one of the params.
    """
    run = RequestedRun(dag_id, f"{COMMAND_RUN}{datetime.now(UTC).isoformat()}", conf)
    refuse_unknown_params(run)
    return run


def begun_run(name: str, journal: Journal, topology: Topology, folder: Path) -> RequestedRun:
    """Return the run that has this run id or procedure id, from the journal or from an earlier command's files.

    Args:
        name: run id or procedure id.
        folder: has a subfolder for each procedure that a command's Airflow has run.

    Raises:
        BadInput: neither the journal nor the folder has such a run.
        Refusal: the run's procedure has ended.
    """
    opened_procedures = list(facts_of(journal.entries(step=Step.OPEN_PROCEDURE, kind=Entry.OPENED), ProcedureOpened))
    for entry, opened in reversed(opened_procedures):
        if name in (entry.procedure_id, opened.run_id):
            _refuse_if_closed(journal, entry.procedure_id)
            return _opened_run(opened, topology)
    for file in folder.glob(f"*/{_FILE}"):
        run, _ = read_run(file.parent)
        if name in (run.run_id, run.procedure_id):
            return run
    raise BadInput(
        f"There is no run {name!a}",
        f"neither the journal nor {folder} has this id",
        "Give the procedure id, the name of the procedure's evidence folder. A run that the journal does not have has"
        " changed nothing: start a new run with its DAG id and --conf.",
    )


def _opened_run(opened: ProcedureOpened, topology: Topology) -> RequestedRun:
    conf = params_of(Request(**opened.request), topology)
    conf = without_unstated_deadlines(PROCEDURES[opened.dag_id].params, conf)
    run = RequestedRun(opened.dag_id, opened.run_id, conf)
    refuse_unknown_params(run)
    return run


def _refuse_if_closed(journal: Journal, procedure_id: str) -> None:
    """Raise Refusal if the procedure took a lease and no longer has it, which means that the procedure has ended."""
    lease_taken = newest_fact(journal.entries(procedure_id, Step.OPEN_PROCEDURE, Entry.OUTCOME), LeaseTaken)
    lease = journal.lease(lease_taken.pair) if lease_taken else None
    if lease_taken and (lease is None or lease.holder != procedure_id or lease.released_at is not None):
        raise Refusal(
            f"{procedure_id} has ended",
            f"outcome {lease.outcome if lease and lease.holder == procedure_id else 'unknown'}",
            f"Read the evidence of {procedure_id}, then start a new run.",
        )


def refuse_unknown_params(run: RequestedRun) -> None:
    """Raise BadInput if the run's DAG is no procedure, or does not take one of the run's params."""
    if run.dag_id not in PROCEDURES:
        raise BadInput(f"There is no DAG {run.dag_id!a}", "", f"Name one of {', '.join(PROCEDURES)}.")
    params = PROCEDURES[run.dag_id].params
    unknown = sorted(set(run.conf) - params)
    if unknown:
        raise BadInput(
            f"{', '.join(map(quoted_value, unknown))}: no such param",
            f"params of this DAG: {', '.join(sorted(params))}",
            "Correct --conf; nothing was started.",
        )


def without_unstated_deadlines(params: Collection[str], conf: dict[str, Any]) -> dict[str, Any]:
    """Return `conf` without the deadlines for which the DAG has no param; the topology's values apply to them.

    Args:
        params: names of the params that the DAG takes.
    """
    return {name: value for name, value in conf.items() if name in params or name not in Deadlines.model_fields}


def params_of(request: Request, topology: Topology) -> dict[str, Any]:
    """Return the params that a procedure was started with; leave out empty values and the topology's deadlines."""
    request_params = request.model_dump(mode="json")
    topology_deadlines = topology.deadlines.model_dump()
    deadlines = {
        name: seconds
        for name, seconds in request_params.pop("deadlines").items()
        if topology_deadlines[name] != seconds
    }
    return {
        name: value
        for name, value in {**request_params, **request_params.pop("choices"), **deadlines}.items()
        if name != "choices" and value not in ({}, None, False)
    }


def gates_to_ask(entries: Collection[JournalEntry]) -> set[str]:
    """Return the task ids of a procedure's approved gates once open_target has begun, else an empty set.

    A new Airflow database lacks the answers to these gates, which are therefore asked again.
    """
    return {entry.step for entry in entries if entry.kind == Entry.APPROVAL} if _may_be_open(entries) else set()


def steps_done_for_good(entries: Collection[JournalEntry]) -> set[str]:
    """Return the task ids of steps that a resumed run must not repeat; an empty set before open_target has begun.

    These are the steps before open_target that have an outcome, except the gates.
    """
    if not _may_be_open(entries):
        return set()
    order = [step.value for step in Step]
    before = set(order[: order.index(Step.OPEN_TARGET)])
    return before & {entry.step for entry in entries if entry.kind == Entry.OUTCOME} - gates_to_ask(entries)


def _may_be_open(entries: Iterable[JournalEntry]) -> bool:
    return any(entry.step == Step.OPEN_TARGET and entry.kind == Entry.INTENT for entry in entries)


def read_run(folder: Path) -> tuple[RequestedRun, list[str]]:
    """Return the run of the command's Airflow in a folder, and its tasks to clear once its gates are answered."""
    document = read_json((folder / _FILE).read_text(encoding="utf-8"))
    return RequestedRun(**document["run"]), document["after_gates"]


def write_run(folder: Path, run: RequestedRun, after_gates: list[str]) -> None:
    """Write run.json, atomically: the run in the folder's database, and its tasks to clear after its gates."""
    part = private_file(folder / f"{_FILE}.part")
    part.write_text(json.dumps({"run": asdict(run), "after_gates": after_gates}))
    part.rename(folder / _FILE)


def has_run(folder: Path) -> bool:
    """Whether the folder of a command's Airflow has run.json, which names the run in the folder's database."""
    return (folder / _FILE).exists()
