"""The Connect worker beside each cluster in which drills run MirrorMaker 2, apart from the flows' workers."""

from __future__ import annotations

from lab.environment.connect import WorkerProcess
from lab.environment.state import Lab

#: A drill's records are few and small.
HEAP = "256m"


def drill_worker(lab: Lab, alias: str) -> WorkerProcess:
    """Return the Connect worker for drills beside a cluster, the only one of its group."""
    group = f"__connect_switchback-drill_{alias}"
    return WorkerProcess(alias, f"drill-{alias}", group=group, url=lab.drill_connect_url(alias), heap=HEAP)
