"""(o) A planned failover and a failback with 7,000 partitions and 10,000 groups, checked: own time and memory."""

from __future__ import annotations

import os
from typing import Any

from kafka_dr.domain.evidence.timeline import client_downtime

from lab.checker import CheckResult
from lab.rehearsal.round_trip import Leaving
from tests.benchmarks.clusters import Clusters, clusters
from tests.benchmarks.failover import by_step
from tests.benchmarks.measuring import Bound, Figures, PeakMemory, say
from tests.benchmarks.readiness import fill
from tests.faults.deployment.outages import set_deadlines
from tests.faults.support.trips import SteppedTrips

PARTITIONS, GROUPS, SEED = 7_000, 10_000, 4246
#: By procedure: at most so many seconds of its own.
BOUNDS = {"planned_failover": Bound(240), "failback": Bound(600)}
MEMORY = Bound(600)
#: How long a procedure may take, in seconds.
LONGEST = 1_800


def own(dag_id: str) -> str:
    """Name the figure of a procedure's own time."""
    return f"(o) own time of {dag_id}, {PARTITIONS:,} partitions and {GROUPS:,} groups"


def memory(dag_id: str) -> str:
    """Name the figure of the memory of a procedure's largest step."""
    return f"(o) memory of the largest step of {dag_id}"


def promise(figures: Figures) -> None:
    """Name what will be measured."""
    for dag_id, bound in BOUNDS.items():
        figures.promise(own(dag_id), bound, " s")
        figures.promise(memory(dag_id), MEMORY, " MB")


def run(figures: Figures, scale: float, passes: int) -> None:
    """Fill a lab, move the clients of a checked workload to the target, and back."""
    with clusters() as site:
        fill(site, "filler", PARTITIONS * scale, GROUPS * scale)
        trips = SteppedTrips(site.lab.root, site.scratch / "trips", SEED, rate=200, scale=0.05, groups=6)
        set_deadlines(site.lab)
        trips.seconds = LONGEST
        try:
            trips.start_always_on()
            trips.seed_topics()
            for dag_id in BOUNDS:
                measure(figures, site, trips, dag_id)
        finally:
            trips.close()


def measure(figures: Figures, site: Clusters, trips: SteppedTrips, dag_id: str) -> None:
    """Move the clients by a procedure; the checker must find nothing wrong."""
    with PeakMemory(os.getpid()) as peak:
        verdict = trips.leave(Leaving(more=5)) if dag_id == "planned_failover" else trips.come_back()
    refuse_findings(dag_id, verdict)
    evidence = trips.evidence()[1]
    for line in by_step(evidence):
        say(line)
    figures.measured(own(dag_id), evidence["seconds"]["own"], said_of(evidence))
    figures.measured(memory(dag_id), peak.largest("step_server"))


def refuse_findings(dag_id: str, verdict: CheckResult) -> None:
    """Refuse to measure a procedure that did not end as it must."""
    if not verdict.passed:
        raise RuntimeError(f"{dag_id}: " + "; ".join(verdict.lines(limit=5)))


def said_of(evidence: dict[str, Any]) -> str:
    """Return the other figures of a procedure, as text."""
    downtime, seconds = client_downtime(evidence), evidence["seconds"]
    stopped = "unknown" if downtime is None else f"{downtime.seconds:.1f} s"
    return f"downtime {stopped}; in all {seconds['whole']:.0f} s; classes {evidence['classes']}"
