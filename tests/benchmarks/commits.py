"""(b) Committing 10,000 groups x 100 positions and reading them back, beside bare commits and Kafka's tool."""

from __future__ import annotations

import csv
import itertools
import subprocess
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka import TopicPartition as WirePartition
from confluent_kafka.admin import AdminClient
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.brokers.group_requests import OK

from lab.environment.jvm import java_program
from lab.install.jars import jars_folder
from tests.benchmarks.clusters import TARGET, Clusters, clusters
from tests.benchmarks.measuring import Bound, Figures, in_turns, ratio, say, timed, told
from tests.benchmarks.passes.contestants import QUIET_LOGGING

RATE, BACK = "(b) hook's commit rate / bare pipelined commits' rate", "(b) read-back's time / commit's time"
PARTITIONS, IN_FLIGHT = 100, 128
TOOL_SIZES, TOOL_SECONDS = (50, 200, 1_000), 120.0
Wanted = dict[str, dict[TopicPartition, int]]


def tool_figure(groups: int) -> str:
    """Name the figure of one point of the tool's curve."""
    return f"(b) kafka-consumer-groups' time / commit and read-back, {groups:,} groups"


def promise(figures: Figures) -> None:
    """Name what will be measured."""
    figures.promise(RATE, Bound(0.9, at_least=True))
    figures.promise(BACK, Bound(0.7))
    for groups in TOOL_SIZES:
        figures.promise(tool_figure(groups))


def run(figures: Figures, scale: float, passes: int) -> None:
    """Measure on one lab."""
    groups = max(200, int(10_000 * scale))
    topics = {f"orders-{number}": PARTITIONS for number in range(10)}
    with clusters() as site:
        site.stop_mirroring()
        site.create_topics(TARGET, topics)
        beside_bare_commits(figures, site, list(topics), groups, passes)
        beside_the_tool(figures, site, list(topics))


def wanted_positions(topics: list[str], groups: int, offset: int) -> Wanted:
    """Positions of many groups, each on all partitions of one topic."""
    places = {topic: [TopicPartition(topic, p) for p in range(PARTITIONS)] for topic in topics}
    return {
        f"consumer-group-{n:07d}": {tp: offset + tp.partition for tp in places[topics[n % len(topics)]]}
        for n in range(groups)
    }


def beside_bare_commits(figures: Figures, site: Clusters, topics: list[str], groups: int, passes: int) -> None:
    """The hook and a bare loop commit the same groups in turn; what the hook committed is read back each time."""
    target, admin, offsets = (
        site.cluster(TARGET),
        AdminClient({**site.settings(TARGET), "log_level": 0}),
        itertools.count(1),
    )
    back: list[float] = []

    def ours() -> float:
        wanted = wanted_positions(topics, groups, next(offsets))
        began = time.monotonic()
        outcomes = target.commit_many(wanted.items())
        seconds = time.monotonic() - began
        if any(word != OK for of_group in outcomes.values() for word in of_group.values()):
            raise RuntimeError("a commit was refused")
        back.append(read_back(target, wanted))
        return seconds

    def bare() -> float:
        wanted = wanted_positions(topics, groups, next(offsets))
        seconds = timed(lambda: bare_commits(admin, wanted))
        # Both are followed by the same reads: else one would more often begin while the broker still cleans up.
        read_back(target, wanted)
        return seconds

    say("  first pass, which makes the groups, not counted: " + f"{bare():.2f} s")
    took = in_turns({"hook": ours, "bare": bare}, passes)
    say(f"  read-back: {told(back)}")
    figures.measured(RATE, 1 / ratio(took["hook"], took["bare"]), f"{groups:,} groups x {PARTITIONS}")
    figures.measured(BACK, ratio(back, took["hook"]))


def read_back(target: KafkaCluster, wanted: Wanted) -> float:
    """Read all positions by the hook; every one is then compared, outside of the seconds that are returned."""
    began = time.monotonic()
    found = target.position_columns(wanted)
    seconds = time.monotonic() - began
    held = dict(zip(zip(found.group, found.topic, found.partition, strict=True), found.position, strict=True))
    for group, positions in wanted.items():
        if any(held.get((group, *tp)) != offset for tp, offset in positions.items()):
            raise RuntimeError(f"{group} does not hold what was committed")
    return seconds


def bare_commits(admin: AdminClient, wanted: Wanted) -> None:
    """The least that a commit of many groups takes: requests in flight, every answer looked at, no retry."""
    waiting: deque[Future] = deque()
    for request in requests(wanted):
        if len(waiting) == IN_FLIGHT:
            settle(waiting.popleft())
        waiting.extend(admin.alter_consumer_group_offsets([request], request_timeout=30).values())
    while waiting:
        settle(waiting.popleft())


def requests(wanted: Wanted) -> Iterator[ConsumerGroupTopicPartitions]:
    """One request a group."""
    for group, positions in wanted.items():
        yield ConsumerGroupTopicPartitions(
            group, [WirePartition(tp.topic, tp.partition, offset) for tp, offset in positions.items()]
        )


def settle(future: Future) -> None:
    """Look at every partition's outcome."""
    if any(place.error for place in future.result(60).topic_partitions):
        raise RuntimeError("a bare commit was refused")


def beside_the_tool(figures: Figures, site: Clusters, topics: list[str]) -> None:
    """Kafka's own tool, one JVM for growing numbers of groups; it parses the whole file for each group."""
    target, curve = site.cluster(TARGET), []
    # The tool puts what lies beyond the log at its end: every partition needs a record.
    site.write(TARGET, ((topic, p, None, b"x") for topic in topics for p in range(PARTITIONS)))
    for groups in TOOL_SIZES:
        wanted = {
            group: {tp: tp.partition % 2 for tp in places}
            for group, places in wanted_positions(topics, groups, 0).items()
        }
        seconds = the_tool(site, wanted)
        shown = f"> {TOOL_SECONDS:.0f}" if seconds is None else f"{seconds:.1f}"
        curve.append(f"{groups:,} groups {shown} s")
        ours = timed(lambda wanted=wanted: target.commit_many(wanted.items())) + read_back(target, wanted)
        figures.measured(
            tool_figure(groups),
            (seconds or TOOL_SECONDS) / ours,
            f"{shown} s / {ours:.2f} s" + ("" if seconds else ", the tool was stopped"),
        )
    say(f"  kafka-consumer-groups --reset-offsets --from-file: {', '.join(curve)}")


def the_tool(site: Clusters, wanted: Wanted) -> float | None:
    """Return the seconds of one call, JVM included; None when it had not ended by the limit."""
    file = site.scratch / "offsets.csv"
    with file.open("w", newline="") as rows:
        csv.writer(rows).writerows(
            (group, tp.topic, tp.partition, offset)
            for group, positions in wanted.items()
            for tp, offset in positions.items()
        )
    line = tool_line(site, file) + [word for group in wanted for word in ("--group", group)]
    began = time.monotonic()
    try:
        done = subprocess.run(line, capture_output=True, text=True, timeout=TOOL_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return None
    seconds = time.monotonic() - began
    if done.returncode:
        raise RuntimeError(f"kafka-consumer-groups failed: {(done.stdout + done.stderr)[-500:]}")
    read_back(site.cluster(TARGET), wanted)
    return seconds


def tool_line(site: Clusters, file: Path) -> list[str]:
    """Return the beginning of the tool's command line."""
    quiet = [f"-Dlog4j2.configurationFile={QUIET_LOGGING}", "-Dlab.log=/dev/null"]
    main = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    reach = [
        "--bootstrap-server",
        site.settings(TARGET)["bootstrap.servers"],
        "--command-config",
        str(site.java_properties(TARGET)),
    ]
    return [
        java_program(),
        "-Xmx1g",
        *quiet,
        "-cp",
        f"{jars_folder() / 'kafka'}/*",
        main,
        *reach,
        "--reset-offsets",
        "--from-file",
        str(file),
        "--execute",
    ]
