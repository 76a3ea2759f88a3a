"""(d) A whole planned failover through Airflow at 10, 1,000 and 10,000 groups x 100 positions: own time by step."""

from __future__ import annotations

import os
from datetime import datetime
from typing import Any

import numpy as np

from kafka_dr.domain.topic_partition import TopicPartition
from lab.rehearsal import Rehearsal
from tests.benchmarks.clusters import SOURCE, Clusters, clusters
from tests.benchmarks.measuring import Bound, Figures, say

BOUNDS = {10: 30.0, 1_000: 40.0, 10_000: 60.0}
PARTITIONS, RECORDS = 100, 200
LONGEST = 1_800
MOST_WITH_CHECKPOINTS = 100


def figure(groups: int) -> str:
    """Name the figure of one size."""
    return f"(d) own time of a planned failover, {groups:,} groups x {PARTITIONS}"


def sizes() -> dict[int, float]:
    """Return the sizes to run with their bounds; SWITCHBACK_BENCH_GROUPS narrows them."""
    wanted = os.environ.get("SWITCHBACK_BENCH_GROUPS")
    return {groups: BOUNDS[groups] for groups in map(int, wanted.split(","))} if wanted else BOUNDS


def promise(figures: Figures) -> None:
    """Name what will be measured."""
    for groups, seconds in sizes().items():
        figures.promise(figure(groups), Bound(seconds), " s")


def run(figures: Figures, scale: float, passes: int) -> None:
    """One lab and one failover a size; sizes are not scaled, as their bounds are times.

    From a thousand groups MirrorMaker 2 is told to write no checkpoints: for each of them its task touches the metrics of every
    position it has (one sensor holds them all), so that the first hundred thousand take both cores of this machine for an hour.
    """
    for groups in sizes():
        os.environ |= {"SWITCHBACK_CONNECT_HEAP": "2g", "SWITCHBACK_EMIT_CHECKPOINTS": str(groups <= MOST_WITH_CHECKPOINTS).lower()}
        with clusters(airflow=True) as site:
            measure(figures, site, groups)


def measure(figures: Figures, site: Clusters, groups: int) -> None:
    """Seed, fail over, and read the times from the evidence."""
    seed(site, groups)
    rehearsal = Rehearsal(site.lab.root, site.scratch / "rehearsal", groups)
    code = rehearsal.run("approver", f"{groups} groups are measured", LONGEST)
    evidence = rehearsal.evidence()[1]
    if code:
        raise RuntimeError(f"the failover of {groups} groups ended as {evidence.get('outcome')}: {evidence.get('reason_for_outcome')}")
    for line in by_step(evidence):
        say(line)
    figures.measured(figure(groups), evidence["seconds"]["own"], f"people {evidence['seconds']['people']:.0f} s, drain {evidence['seconds']['drain']:.0f} s; classes {evidence['classes']}")


def seed(site: Clusters, groups: int) -> None:
    """Topics with 100 partitions, a group on each of one topic's; half of the positions at the end, the others anywhere."""
    topics = {f"orders-{number}": PARTITIONS for number in range(max(1, min(10, groups // 100)))}
    site.create_topics(SOURCE, topics)
    site.write(SOURCE, ((name, p, b"key-%d" % n, b"%s-%d-%d " % (name.encode(), p, n) + b"x" * 150) for n in range(RECORDS) for name in topics for p in range(PARTITIONS)))
    site.await_mirrored(topics)
    dice, names = np.random.default_rng(3), list(topics)
    behind = dice.integers(0, RECORDS + 1, (groups, PARTITIONS)) * dice.integers(0, 2, (groups, PARTITIONS))
    wanted = ((f"consumer-group-{g:07d}", {TopicPartition(names[g % len(names)], p): RECORDS - int(behind[g, p]) for p in range(PARTITIONS)}) for g in range(groups))
    site.cluster(SOURCE).commit_many(wanted)
    say(f"  {groups:,} groups on {len(topics) * PARTITIONS:,} partitions placed")


def by_step(evidence: dict[str, Any]) -> list[str]:
    """Return a line for every step with its seconds, the wait before it included in brackets."""
    lines, before = [], None
    for step in sorted((s for s in evidence["steps"] if s["started_at"] and s["ended_at"]), key=lambda s: s["started_at"]):
        began, ended = (datetime.fromisoformat(step[name]) for name in ("started_at", "ended_at"))
        wait = (began - before).total_seconds() if before else 0.0
        lines.append(f"    {step['id']:<28} {(ended - began).total_seconds():7.2f} s  (+{wait:.2f} s before it)")
        before = ended
    return lines
