"""`down`: stop all processes of a lab, also after a crash, and remove the lab's files except the evidence."""

from __future__ import annotations

import shutil
from pathlib import Path

from lab.environment.locks import exclusive_lock
from lab.environment.production.postgres import stop_postgres
from lab.environment.production.supervisor import stop_supervisor
from lab.environment.progress import ProgressLines
from lab.environment.state import Lab

GRACE_SECONDS = 2.0


def down(state: Path | str, progress: ProgressLines | None = None) -> None:
    """Stop a lab and remove its files; do nothing if the folder has no lab.

    Raises:
        LabError: a process survived SIGKILL.
    """
    lab, progress = Lab(state), progress or ProgressLines()
    with exclusive_lock(lab.root):
        count = len(lab.processes.members())
        stop_supervisor(lab)
        stop_postgres(lab)
        lab.processes.stop(GRACE_SECONDS, politely=("airflow",))
        progress.say(f"{count} processes stopped")
        if lab.exists():
            _remove_files(lab)
            progress.say(f"files removed, except {lab.evidence} and files that the lab did not create")


def _remove_files(lab: Lab) -> None:
    for file in (lab.topology, lab.routing, lab.airflow_env, *lab.root.glob(f"{lab.journal.name}*")):
        file.unlink(missing_ok=True)
    # The lab's record is removed last: while it exists, an interrupted `down` can be repeated.
    for entry in sorted(lab.home.iterdir()):
        if entry.is_dir():
            shutil.rmtree(entry)
    shutil.rmtree(lab.home)
    for folder in (lab.evidence, lab.root):
        if folder.exists() and not any(folder.iterdir()):
            folder.rmdir()
