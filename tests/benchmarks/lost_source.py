"""(i) An unplanned failover through Airflow at 10 and 1,000 groups x 100 positions: own time by step."""

from __future__ import annotations

import time

from lab.rehearsal.unplanned import LostSourceRehearsal
from tests.benchmarks.clusters import Clusters
from tests.benchmarks.failover import PARTITIONS, fail_over, lab_for, seed, sizes
from tests.benchmarks.measuring import Bound, Figures, say
from tests.faults.support.black_hole import black_holed, source_ports

BOUNDS = {10: 30.0, 1_000: 60.0}
#: Checkpoints of the larger size are written by the benchmark, under identity naming.
NAMINGS = {10: ("identity", "default"), 1_000: ("identity",)}
#: Records a second under which the source dies, and for how long at least.
RATE, LOAD_SECONDS = 2_000, 5.0


def figure(groups: int, policy: str) -> str:
    """Name the figure of one size and naming."""
    return f"(i) own time of an unplanned failover, {groups:,} groups x {PARTITIONS}, {policy} naming"


def promise(figures: Figures) -> None:
    """Name what will be measured."""
    for groups, seconds in sizes(BOUNDS).items():
        for policy in NAMINGS[groups]:
            figures.promise(figure(groups, policy), Bound(seconds), " s")


def run(figures: Figures, scale: float, passes: int) -> None:
    """One lab and one failover a size and naming; as of planned ones, sizes are not scaled."""
    for groups in sizes(BOUNDS):
        for policy in NAMINGS[groups]:
            with lab_for(groups, policy) as site:
                measure(figures, site, groups)


def measure(figures: Figures, site: Clusters, groups: int) -> None:
    """Seed, record, kill the source under load, and fail over while its addresses swallow every connection."""
    rehearsal = LostSourceRehearsal(site.lab.root, site.scratch / "rehearsal", groups, RATE)
    try:
        rehearsal.load.create_topics()
        seed(site, groups)
        rehearsal.load.start()
        time.sleep(LOAD_SECONDS)
        rehearsal.await_samples()
        rehearsal.kill_source()
        say(
            f"  the source is dead; {rehearsal.load.counts()['acknowledged']:,} records of the load were acknowledged"
            " by then"
        )
        with black_holed(source_ports(site.lab)):
            fail_over(figures, figure(groups, rehearsal.policy), rehearsal, groups)
    finally:
        rehearsal.stop()
