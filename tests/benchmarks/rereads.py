"""(c) Re-reads of groups placed by MirrorMaker 2's checkpoints and by a planned failover, by record numbers."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as WirePartition
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.mirror_maker.mirror_records import decode_checkpoints
from kafka_dr.hooks.brokers.record_reader import RecordReader

from lab.rehearsal.planned import Rehearsal
from tests.benchmarks.clusters import CHECKPOINTS, SOURCE, TARGET, Clusters, clusters
from tests.benchmarks.measuring import Bound, Figures, say

RECORDS, SLOW_RATE = 200_000, 4_000
LAGS, GROUPS_PER_LAG = (0, 10, 100, 1_000, 10_000, 100_000), 20
SPEEDS = {"fast": None, "slow": SLOW_RATE}
CHECKPOINT_SECONDS = 30.0
SKIPPED, WORST, LARGE = (
    "(c) records skipped by our positions",
    "(c) most re-reads by one of our positions",
    "(c) our re-reads / MirrorMaker 2's, lags >= 1,000",
)


class Placed(NamedTuple):
    """A group, where it stood on the source, and the lag it was made for."""

    group: str
    topic: str
    position: int
    lag: int


def promise(figures: Figures) -> None:
    """Name what will be measured."""
    figures.promise(SKIPPED, Bound(0))
    figures.promise(WORST, Bound(0))
    for speed in SPEEDS:
        figures.promise(f"{LARGE}, {speed} production", Bound(0.01))


def run(figures: Figures, scale: float, passes: int) -> None:
    """One planned failover on a lab with Airflow; both placings are then checked on the same log."""
    records = max(2_000, int(RECORDS * scale))
    with clusters(airflow=True) as site:
        groups = seed(site, records)
        await_checkpoints(site, groups)
        rehearsal = Rehearsal(site.lab.root, site.scratch / "rehearsal", 1)
        if rehearsal.run("approver", "re-reads are measured"):
            raise RuntimeError(f"the failover did not complete: {rehearsal.evidence()[1].get('reason_for_outcome')}")
        check(
            figures,
            groups,
            {"ours": ours(site, groups), "mm2": checkpoints(site)},
            {name: numbers(site, name) for name in topics()},
            records,
        )


def topics() -> dict[str, float | None]:
    """Topic -> records a second, None for as fast as possible."""
    return {f"orders-{speed}": rate for speed, rate in SPEEDS.items()}


def seed(site: Clusters, records: int) -> list[Placed]:
    """Write numbered records into one partition a topic, wait until they are mirrored, and place groups at all lags."""
    site.create_topics(SOURCE, dict.fromkeys(topics(), 1))
    for name, rate in topics().items():
        seconds = site.write(SOURCE, ((name, 0, None, b"%d" % number) for number in range(records)), rate)
        say(f"  {name}: {records:,} records written in {seconds:.1f} s")
    site.await_mirrored(dict.fromkeys(topics(), 1))
    groups = list(placed(records))
    site.cluster(SOURCE).commit_many((one.group, {TopicPartition(one.topic, 0): one.position}) for one in groups)
    return groups


def placed(records: int) -> Iterator[Placed]:
    """Twenty groups a lag: the first exactly there, the others up to 1.9 times as far back."""
    dice = random.Random(5)
    for name in topics():
        for lag in (lag for lag in LAGS if lag <= records):
            for number in range(GROUPS_PER_LAG):
                back = lag if number == 0 else dice.randint(lag, int(lag * 1.9))
                yield Placed(f"{name}-lag-{lag}-{number}", name, max(0, records - back), lag)


def await_checkpoints(site: Clusters, groups: list[Placed]) -> None:
    """Give MirrorMaker 2 the time to place every group; what is still missing then is counted."""
    deadline = time.monotonic() + CHECKPOINT_SECONDS
    while missing := {one.group for one in groups} - set(checkpoints(site)):
        if time.monotonic() > deadline:
            say(f"  {len(missing)} groups without a checkpoint after {CHECKPOINT_SECONDS:.0f} s")
            return
        time.sleep(1)


def checkpoints(site: Clusters) -> dict[str, int]:
    """Group -> where MirrorMaker 2's newest checkpoint puts it."""
    records = list(RecordReader(site.settings(TARGET), TARGET).read_all(CHECKPOINTS))
    decoded = decode_checkpoints([r.key for r in records], [r.value for r in records])
    return {c.group: c.downstream for c in decoded.records if c.topic in topics()}


def ours(site: Clusters, groups: list[Placed]) -> dict[str, int]:
    """Group -> where the failover put it."""
    held = site.cluster(TARGET).positions([one.group for one in groups])
    return {one.group: held[one.group][TopicPartition(one.topic, 0)].offset for one in groups}


def numbers(site: Clusters, topic: str) -> np.ndarray:
    """Read the target's log with a plain client: the record number at each offset."""
    reading = {
        "group.id": "bench",
        "enable.partition.eof": True,
        "enable.auto.commit": False,
        "isolation.level": "read_uncommitted",
    }
    consumer, found = Consumer({**site.settings(TARGET), **reading}), {}
    consumer.assign([WirePartition(topic, 0, 0)])
    try:
        while True:
            for message in consumer.consume(10_000, 1.0):
                if message.error() is None:
                    found[message.offset()] = int(message.value())
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    return np.array([found.get(offset, -1) for offset in range(max(found) + 1)])
    finally:
        consumer.close()


def check(
    figures: Figures,
    groups: list[Placed],
    placings: dict[str, dict[str, int]],
    logs: dict[str, np.ndarray],
    records: int,
) -> None:
    """Count for each placing what each group reads again and what it never reads; print a row a lag."""
    again: dict[tuple[str, str, int], list[int]] = {}
    skipped = dict.fromkeys(placings, 0)
    for one in groups:
        for by, offsets in placings.items():
            # A group that MirrorMaker 2 does not place starts at the beginning: the best it can do without losing
            # records.
            rest = logs[one.topic][offsets.get(one.group, 0) :]
            again.setdefault((by, one.topic, one.lag), []).append(int(((rest >= 0) & (rest < one.position)).sum()))
            skipped[by] += records - one.position - len(np.unique(rest[rest >= one.position]))
    for name in topics():
        for lag in sorted({one.lag for one in groups}):
            say(f"  {name} lag {lag:>7,}: " + "; ".join(f"{by} {spread(again[by, name, lag])}" for by in placings))
    say(
        f"  skipped: {skipped}; groups {len(groups)}, of which MirrorMaker 2 placed"
        f" {sum(one.group in placings['mm2'] for one in groups)}"
    )
    figures.measured(SKIPPED, skipped["ours"], f"MirrorMaker 2's checkpoints: {skipped['mm2']}")
    figures.measured(WORST, max(count for (by, *_), counts in again.items() if by == "ours" for count in counts))
    for speed in SPEEDS:
        totals = {
            by: sum(
                sum(counts)
                for (who, name, lag), counts in again.items()
                if (who, name) == (by, f"orders-{speed}") and lag >= 1_000
            )
            for by in placings
        }
        figures.measured(
            f"{LARGE}, {speed} production",
            totals["ours"] / max(totals["mm2"], 1),
            f"{totals['ours']:,} / {totals['mm2']:,} records",
        )


def spread(counts: list[int]) -> str:
    """Smallest, median and largest of a row."""
    return f"{min(counts):,}/{statistics.median(counts):,.0f}/{max(counts):,}"
