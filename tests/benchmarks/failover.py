"""(d) A whole planned failover through Airflow at 10, 1,000 and 10,000 groups x 100 positions: own time by step.

Beside its own time stands the clients' downtime, from fence_producers to redirect_clients.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from unittest.mock import patch

import numpy as np
from kafka_dr.domain.evidence.timeline import client_downtime
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.mirror_maker.mirror_records import Checkpoint, encode_checkpoint

from lab.rehearsal.planned import Rehearsal
from tests.benchmarks.clusters import CHECKPOINTS, SOURCE, TARGET, Clusters, clusters
from tests.benchmarks.measuring import Bound, Figures, say

BOUNDS = {10: 30.0, 1_000: 40.0, 10_000: 60.0}
PARTITIONS, RECORDS = 100, 200
LONGEST = 1_800
MOST_OF_ITS_OWN = 100


def figure(groups: int) -> str:
    """Name the figure of one size."""
    return f"(d) own time of a planned failover, {groups:,} groups x {PARTITIONS}"


def sizes(bounds: Mapping[int, float] = BOUNDS) -> dict[int, float]:
    """Return the sizes to run with their bounds; SWITCHBACK_BENCH_GROUPS narrows them."""
    wanted = os.environ.get("SWITCHBACK_BENCH_GROUPS")
    return {groups: seconds for groups, seconds in bounds.items() if not wanted or str(groups) in wanted.split(",")}


def promise(figures: Figures) -> None:
    """Name what will be measured."""
    for groups, seconds in sizes().items():
        figures.promise(figure(groups), Bound(seconds), " s")


def run(figures: Figures, scale: float, passes: int) -> None:
    """One lab and one failover a size; sizes are not scaled, as their bounds are times."""
    for groups in sizes():
        with lab_for(groups) as site:
            measure(figures, site, groups)


@contextmanager
def lab_for(groups: int, policy: str = "identity") -> Iterator[Clusters]:
    """Bring a lab with Airflow up; from 1,000 groups on the benchmark writes the checkpoints (decision 0007)."""
    asked = {"SWITCHBACK_EMIT_CHECKPOINTS": str(groups <= MOST_OF_ITS_OWN).lower()}
    with patch.dict(os.environ, asked), clusters(airflow=True, policy=policy) as site:
        yield site


def measure(figures: Figures, site: Clusters, groups: int) -> None:
    """Seed, and fail over."""
    seed(site, groups)
    fail_over(figures, figure(groups), Rehearsal(site.lab.root, site.scratch / "rehearsal", groups), groups)


def fail_over(figures: Figures, name: str, rehearsal: Rehearsal, groups: int) -> None:
    """Run the rehearsal's procedure, and read the times from the evidence."""
    code = rehearsal.run("approver", f"{groups} groups are measured", LONGEST)
    evidence = rehearsal.evidence()[1]
    if code:
        raise RuntimeError(
            f"the failover of {groups} groups ended as {evidence.get('outcome')}: {evidence.get('reason_for_outcome')}"
        )
    placed = sum(evidence["classes"].values())
    if placed < groups * PARTITIONS:
        raise RuntimeError(f"the failover moved {placed:,} positions, not {groups:,} x {PARTITIONS}")
    for line in by_step(evidence):
        say(line)
    seconds, downtime = evidence["seconds"], client_downtime(evidence)
    if downtime is None or downtime.ended is None:
        raise RuntimeError("the evidence does not say how long clients stood still")
    figures.measured(
        name,
        seconds["own"],
        f"clients stood still for {downtime.seconds:.1f} s, from fence to redirect; in all {seconds['whole']:.0f} s,"
        f" people {seconds['people']:.0f} s, drain {seconds['drain']:.0f} s; classes {evidence['classes']}",
    )


def seed(site: Clusters, groups: int) -> None:
    """Topics with 100 partitions, a group on each topic's; half of the positions at the end."""
    topics = {f"orders-{number}": PARTITIONS for number in range(max(1, min(10, groups // 100)))}
    site.create_topics(SOURCE, topics)
    site.write(
        SOURCE,
        (
            (name, p, b"key-%d" % n, b"%s-%d-%d " % (name.encode(), p, n) + b"x" * 150)
            for n in range(RECORDS)
            for name in topics
            for p in range(PARTITIONS)
        ),
    )
    site.await_mirrored(topics)
    dice, names = np.random.default_rng(3), list(topics)
    behind = dice.integers(0, RECORDS + 1, (groups, PARTITIONS)) * dice.integers(0, 2, (groups, PARTITIONS))
    wanted = (
        (
            f"consumer-group-{g:07d}",
            {TopicPartition(names[g % len(names)], p): RECORDS - int(behind[g, p]) for p in range(PARTITIONS)},
        )
        for g in range(groups)
    )
    placed = list(wanted)
    site.cluster(SOURCE).commit_many(placed)
    if groups > MOST_OF_ITS_OWN:
        write_checkpoints(site, placed)
    say(f"  {groups:,} groups on {len(topics) * PARTITIONS:,} partitions placed")


def write_checkpoints(site: Clusters, placed: list[tuple[str, dict[TopicPartition, int]]]) -> None:
    """One checkpoint a position, as MirrorMaker 2 writes them under identity naming without repeats."""
    if CHECKPOINTS not in site.cluster(TARGET).topics([CHECKPOINTS]):
        site.create_topics(TARGET, {CHECKPOINTS: 1}, **{"cleanup.policy": "compact"})
    made = (
        encode_checkpoint(Checkpoint(group, *tp, offset, offset))
        for group, positions in placed
        for tp, offset in positions.items()
    )
    site.write(TARGET, ((CHECKPOINTS, 0, key, value) for key, value in made))


def by_step(evidence: dict[str, Any]) -> list[str]:
    """Return a line for every step with its seconds, the wait before it included in brackets."""
    lines, before = [], None
    for step in sorted(
        (s for s in evidence["steps"] if s["started_at"] and s["ended_at"]), key=lambda s: s["started_at"]
    ):
        began, ended = (datetime.fromisoformat(step[name]) for name in ("started_at", "ended_at"))
        wait = (began - before).total_seconds() if before else 0.0
        lines.append(f"    {step['id']:<28} {(ended - began).total_seconds():7.2f} s  (+{wait:.2f} s before it)")
        before = ended
    return lines
