"""Show before the fence that one machine can read the files of another, as steps behind the fence must.

open_procedure writes a token; check_readiness reads it. Where both ran on one machine, nothing was shown: then an
earlier run counts whose two steps ran on two machines, with the same evidence folder. The plan, which the forecast
writes, is read by the gate and by fence_producers before anything is fenced.
"""

from __future__ import annotations

import hashlib
import socket
from typing import NamedTuple

from kafka_dr.domain.canonical_json import canonical_json
from kafka_dr.domain.readiness.blocker import Blocker
from kafka_dr.errors import Contradiction
from kafka_dr.hooks.private_files import private_file, private_folder
from kafka_dr.procedure.entries import ReadinessChecked, facts_in
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Step

_SHOWN = "opened_on.json"
#: Airflow's executors that run every task on the machine of the scheduler.
_ON_ONE_MACHINE = ("LocalExecutor", "SequentialExecutor")
_GATE = "files_are_shared"


class FilesSeen(NamedTuple):
    """On which machines the token was seen; None if open_procedure wrote none, as in earlier versions."""

    blockers: list[Blocker]
    machines: list[str] | None = None


def show_files(procedure: Run) -> str:
    """Write the token that check_readiness reads; return the name of this machine.

    Raises:
        StoreUnavailable: the topology names a store, and it did not take the token.
    """
    machine = socket.gethostname()
    path = private_file(private_folder(procedure.artifacts.folder) / _SHOWN)
    path.write_text(_content(procedure, machine), encoding="utf-8")
    procedure.artifacts.store(path)
    return machine


def see_files(procedure: Run, executor: str) -> FilesSeen:
    """Read the token on this machine; the blocker says why later steps may not read the files of earlier ones.

    Args:
        executor: Airflow's setting, which may name several.
    """
    opened = procedure.progress.opened
    if opened is None or opened.opened_on is None:
        return FilesSeen([])
    here, wrote = socket.gethostname(), opened.opened_on
    digest = hashlib.sha256(_content(procedure, wrote).encode()).hexdigest()
    try:
        procedure.artifacts.find_file(procedure.artifacts.folder / _SHOWN, digest)
    except Contradiction as error:
        return FilesSeen([_not_read(here, wrote, error)])
    machines = sorted({here, wrote})
    remote = any(name.split(".")[-1].split(":")[-1].strip() not in _ON_ONE_MACHINE for name in executor.split(","))
    shown = len(machines) > 1 or procedure.topology.store is not None or _seen_before(procedure)
    return FilesSeen([_not_shown(procedure, here, executor)] if remote and not shown else [], machines)


def _content(procedure: Run, machine: str) -> str:
    return canonical_json({"procedure": procedure.id, "opened_on": machine})


def _seen_before(procedure: Run) -> bool:
    """Whether two machines saw one token in an earlier run with this evidence folder."""
    earlier = facts_in(procedure.journal.entries_of_steps([Step.CHECK_READINESS]), ReadinessChecked)
    folder = procedure.topology.evidence
    return any(len(fact.files_seen_on or ()) > 1 and fact.files_at == folder for fact in earlier)


def _not_read(here: str, wrote: str, error: Contradiction) -> Blocker:
    return Blocker(
        _GATE,
        "a file that a step wrote on one machine is missing on another",
        f"open_procedure ran on {wrote}, check_readiness on {here}: {error.reason}: {error.seen}",
        "Mount one evidence folder on every machine where tasks run, or name a `store` in the topology; then start a"
        " new run. Behind the fence a step would fail for want of the cut-off.",
    )


def _not_shown(procedure: Run, here: str, executor: str) -> Blocker:
    return Blocker(
        _GATE,
        "nothing shows that every machine where tasks run reads the evidence folder",
        f"{executor} may run steps on several machines, and {procedure.topology.evidence} was seen on {here} alone",
        "Name a `store` in the topology. Or start the run again until its first two steps run on two machines: that is"
        " then known for all later runs with this evidence folder.",
    )
