"""(l) One check of readiness: 7,000 partitions and 10,000 groups, without lag, and with lag on each."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

from kafka_dr.domain.kafka_model.topic_partition import TopicPartition

from tests.benchmarks.clusters import SOURCE, Clusters, clusters
from tests.benchmarks.measuring import Bound, Figures, say, told
from tests.faults.readiness.one_check import check

PARTITIONS, PER_TOPIC, GROUPS = 7_000, 100, 10_000
BOUND = Bound(30)
#: Topics that are created and copied at once: a KRaft controller refuses a request for more than 10,000 partitions.
AT_ONCE = 50
#: What the checked flow is like: without lag, or each partition with a record that has no copy.
COPIED, LAGGING = "no lag", "lag on each partition"


def figure(state: str) -> str:
    """Name the figure of one state of the flow."""
    return f"(l) one check of readiness, {PARTITIONS:,} partitions and {GROUPS:,} groups, {state}"


def promise(figures: Figures) -> None:
    """Name what will be measured."""
    for state in (COPIED, LAGGING):
        figures.promise(figure(state), BOUND, " s")


def run(figures: Figures, scale: float, passes: int) -> None:
    """Fill a lab, check it, and check it again when MirrorMaker 2 stands and every partition has grown."""
    with clusters() as site:
        topics = fill(site, "orders", PARTITIONS * scale, GROUPS * scale)
        measure(figures, site, COPIED, passes, 0)
        site.stop_mirroring()
        site.write(SOURCE, records(topics))
        measure(figures, site, LAGGING, passes, sum(topics.values()))


def fill(site: Clusters, name: str, partitions: float, groups: float) -> dict[str, int]:
    """Write a record to each of so many partitions, await their copies, and commit a position of each group.

    Args:
        name: how the names of the topics begin.

    Returns:
        Topic -> number of partitions.
    """
    topics = {f"{name}-{n}": PER_TOPIC for n in range(max(1, int(partitions) // PER_TOPIC))}
    names = list(topics)
    for first in range(0, len(names), AT_ONCE):
        portion = {name: topics[name] for name in names[first : first + AT_ONCE]}
        site.create_topics(SOURCE, portion)
        site.write(SOURCE, records(portion))
        say(f"  {sum(portion.values()):,} partitions mirrored after {site.await_mirrored(portion, 1_200):.0f} s")
    commit_groups(site, topics, max(10, int(groups)))
    return topics


def records(topics: dict[str, int]) -> Iterator[tuple[str, int, bytes | None, bytes]]:
    """One record for each partition."""
    return ((topic, p, None, f"{topic} {p}".encode()) for topic, count in topics.items() for p in range(count))


def commit_groups(site: Clusters, topics: dict[str, int], groups: int) -> None:
    """Commit a position of each group, spread over all partitions."""
    places = [TopicPartition(topic, p) for topic, count in topics.items() for p in range(count)]
    positions = ((f"group-{n:05d}", {places[n % len(places)]: 1}) for n in range(groups))
    answers: dict[str, Any] = site.cluster(SOURCE).commit_many(positions)
    if len(answers) != groups:
        raise RuntimeError(f"{len(answers)} of {groups} groups were committed")


def measure(figures: Figures, site: Clusters, state: str, passes: int, lagging: int) -> None:
    """Check several times, each in a process of its own; what is counted is the check, not the start of Python."""
    documents = [check(site.lab) for _ in range(passes // 2 + 1)]
    seconds = [document["took_seconds"] for document in documents]
    lag, found = documents[-1]["lag"], [finding["id"] for finding in documents[-1]["findings"]]
    say(f"  {state}: {told(seconds)}; lag {lag['records']:,} records, found {found}")
    if lag["lagging"] != lagging or lag["records"] != lagging:
        raise RuntimeError(f"not a lag of one record on {lagging:,} partitions: {lag}")
    figures.measured(figure(state), statistics.median(seconds), f"{lag['partitions']:,} partitions")
