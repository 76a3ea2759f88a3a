"""(p) 5 million records a side compared, 100 differences planted, beside a Java consumer that reads both sides."""

from __future__ import annotations

import json
import random
import shutil
import statistics
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
from confluent_kafka import Producer
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.reconciliation.ranges import EVERYTHING, PartitionLogs, ranges_of

from tests.benchmarks.clusters import BATCH, SOURCE, TARGET, Clusters, clusters
from tests.benchmarks.measuring import Bound, Figures, in_turns, ratio, say
from tests.benchmarks.passes.contestants import Job, Passes, java_line, kept

WARM = "(p) warm pass of the comparison / Java consumer reading both sides"
PLANTED, OTHERS = "(p) planted differences listed", "(p) other differences listed"
MEMORY = "(p) driver's memory"
DIFFERENCES = 100
#: Topic -> partitions; kinds of differences in each, which are planted evenly. The last one is compacted.
PARTITIONS = {"orders": 10, "payments": 1, "profiles": 2}
SHARES = {"orders": 0.88, "payments": 0.06, "profiles": 0.06}
KINDS = {
    "orders": ("missing", "extra", "altered", "repeated") * 20,
    "payments": ("missing", "extra", "altered", "repeated") * 2,
    "profiles": ("missing", "extra", "altered") * 4,
}
#: Every RECURS-th record is one of CONTENTS equal ones; a transaction has TRANSACTION records, every fourth is aborted.
RECURS, CONTENTS, TRANSACTION, KEYS = 10, 50, 1_000, 20_000
LIVE_A_SECOND = 1_000
Row = tuple[bytes, bytes, int]
Place = tuple[str, int]
Difference = tuple[str, int, str, int | None, int | None]


def promise(figures: Figures) -> None:
    """Name what will be measured."""
    figures.promise(WARM, Bound(3.5))
    figures.promise(PLANTED, Bound(DIFFERENCES, at_least=True))
    figures.promise(OTHERS, Bound(0))
    figures.promise(MEMORY, Bound(2048), " MB")


def run(figures: Figures, scale: float, passes: int) -> None:
    """Measure on one lab."""
    with clusters() as site:
        site.stop_mirroring()
        logs = Logs(max(20_000, int(5_000_000 * scale)))
        logs.seed(site)
        given = logs.write_job(site)
        with written_meanwhile(site):
            beside_a_consumer(figures, site, logs, given, max(2, passes // 2 + 1))


@dataclass
class Logs:
    """What both clusters hold: numbered records, and the copies of them with differences.

    Attributes:
        records: number of records of the source.
        planted: the differences, by topic and partition: kind, source offset, target offset.
    """

    records: int
    planted: set[Difference] = field(default_factory=set)
    began: int = field(default_factory=lambda: int(time.time() * 1000) - 3_600_000)

    def count(self, topic: str) -> int:
        """Return how many records a partition of a topic has on the source."""
        return int(self.records * SHARES[topic]) // PARTITIONS[topic] // TRANSACTION * TRANSACTION

    @property
    def keys(self) -> int:
        """How many keys a partition of the compacted topic has; each has several records."""
        return min(KEYS, self.count("profiles") // 5)

    def row(self, topic: str, partition: int, number: int) -> Row:
        """Return key, value and timestamp of a record."""
        if topic == "profiles":
            return b"%d" % (number % self.keys), b"profile %d " % number + b"x" * 80, self.began + number
        if number % RECURS == 0:
            content = number // RECURS % CONTENTS
            return b"tick", b"tick %d " % content + b"x" * 80, self.began
        return b"key-%d" % number, b"%d order %d " % (partition, number) + b"x" * 80, self.began + number

    def seed(self, site: Clusters) -> None:
        """Write both clusters' records."""
        began, plain = time.monotonic(), {"min.insync.replicas": "1"}
        cleaned = {"cleanup.policy": "compact", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.01"}
        for alias in (SOURCE, TARGET):
            site.create_topics(alias, {name: PARTITIONS[name] for name in ("orders", "payments")}, **plain)
            kept_whole = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.9"}
            site.create_topics(
                alias, {"profiles": PARTITIONS["profiles"]}, **(cleaned if alias == SOURCE else kept_whole)
            )
        for topic, partitions in PARTITIONS.items():
            for partition in range(partitions):
                rows = (self.row(topic, partition, n) for n in range(self.count(topic)))
                if topic == "payments":
                    write_transactions(site, topic, partition, rows)
                else:
                    write(site, SOURCE, topic, partition, rows)
                write(site, TARGET, topic, partition, self.copies(topic, partition))
        assert len(self.planted) == DIFFERENCES, Counter(one[2] for one in self.planted)
        say(f"  {2 * self.records:,} records written in {time.monotonic() - began:.0f} s; {DIFFERENCES} of them differ")
        await_cleaned(site, self.count("profiles"))

    def copies(self, topic: str, partition: int) -> Iterator[Row]:
        """Yield the target's records, and note the differences."""
        kinds = KINDS[topic][partition :: PARTITIONS[topic]]
        if topic == "profiles":
            yield from self._copies_of_keys(partition, kinds)
            return
        edits, count, written = self._places(topic, partition, kinds), self.count(topic), 0
        last = self.row(topic, partition, 0)
        for number in range(count):
            row, kind, at = self.row(topic, partition, number), edits.get(number), offset_of(topic, number)
            if kind == "missing":
                self._note(topic, partition, kind, at, None)
                continue
            if kind == "altered":
                self._note(topic, partition, kind, at, written)
                row = (row[0], row[1] + b"!", row[2])
            elif kind in ("extra", "repeated"):
                self._note(topic, partition, kind, None, written)
                yield (b"foreign", b"foreign %d" % number, row[2]) if kind == "extra" else last
                written += 1
            yield row
            last, written = row, written + 1

    def _places(self, topic: str, partition: int, kinds: Iterable[str]) -> dict[int, str]:
        """Return number of a record -> kind; of missing and altered records, every other one is a recurring one."""
        rng, edits = random.Random(f"{topic} {partition}"), {}
        for index, kind in enumerate(kinds):
            while True:
                number = rng.randrange(100, self.count(topic) - 100)
                recurring = index % 2 == 0 and kind in ("missing", "altered")
                # A repeat follows the record that it repeats, which has a content of its own.
                number = number // RECURS * RECURS + (0 if recurring else 5)
                if not any(abs(number - other) < 50 for other in edits):
                    edits[number] = kind
                    break
        return edits

    def _copies_of_keys(self, partition: int, kinds: tuple[str, ...]) -> Iterator[Row]:
        count, topic = self.count("profiles"), "profiles"
        last = {self.row(topic, partition, n)[0]: n for n in range(count - self.keys, count)}
        chosen = dict(zip(random.Random(partition).sample(sorted(last), len(kinds)), kinds))
        before, written = {}, 0
        for number in range(count):
            row = self.row(topic, partition, number)
            kind = chosen.get(row[0])
            if kind == "missing" or (kind == "altered" and number == last[row[0]]):
                continue
            before[row[0]] = written
            yield row
            written += 1
        for key, kind in chosen.items():
            if kind == "extra":
                self._note(topic, partition, kind, None, written)
                yield b"foreign-" + key, b"foreign", self.began
                written += 1
            else:
                self._note(topic, partition, kind, last[key], before[key] if kind == "altered" else None)

    def _note(self, topic: str, partition: int, kind: str, source: int | None, target: int | None) -> None:
        self.planted.add((topic, partition, kind, source, target))

    def write_job(self, site: Clusters) -> Path:
        """Write the job's input, as the step does: all that the logs hold now."""
        folder = site.scratch / "reconcile"
        folder.mkdir()
        places = [TopicPartition(topic, p) for topic, count in PARTITIONS.items() for p in range(count)]
        source, target = site.cluster(SOURCE), site.cluster(TARGET)
        starts, ends, there, ends_there = (
            source.starts(places),
            source.ends(places),
            target.starts(places),
            target.ends(places),
        )
        rows = []
        for tp in places:
            compacted = tp.topic == "profiles"
            logs = PartitionLogs(starts[tp], ends[tp], there[tp], ends_there[tp], ends[tp] - 1, True, compacted)
            switches = dict.fromkeys(("drained", "complete", "other_writer", "recreated"), False)
            known = {"topic": tp.topic, "partition": tp.partition, "target_topic": tp.topic, "compare_timestamps": True}
            rows.append(
                known
                | switches
                | {"source_compacted": compacted, "target_compacted": compacted}
                | ranges_of(logs, EVERYTHING)
            )
        frame = pd.DataFrame(rows).astype({"partition": "int32", "replicated": "int64"})
        judged = ["judged_from", "judged_to", "replicated", "source_low", "source_high", "target_low", "target_high"]
        frame.drop(columns=judged).to_parquet(folder / "bounds.parquet", index=False)
        frame[["topic", "partition", *judged]].to_parquet(folder / "judged.parquet", index=False)
        (folder / "job.json").write_text(json.dumps({"isolation": "read_uncommitted", "source_readable": True}))
        return folder


def offset_of(topic: str, number: int) -> int:
    """Return the source offset of a record: each transaction is followed by its marker."""
    return number + number // TRANSACTION if topic == "payments" else number


def write(site: Clusters, alias: str, topic: str, partition: int, rows: Iterable[Row]) -> None:
    """Write records with their own timestamps to one partition."""
    producer = Producer({**site.settings(alias), **BATCH, "enable.idempotence": True})
    hand_over(producer, topic, partition, rows)
    assert producer.flush(300) == 0


def write_transactions(site: Clusters, topic: str, partition: int, rows: Iterable[Row]) -> None:
    """Write records in transactions, of which every fourth is aborted."""
    producer, left, number = Producer({**site.settings(SOURCE), **BATCH, "transactional.id": "bench"}), iter(rows), 0
    producer.init_transactions()
    while some := list(islice(left, TRANSACTION)):
        producer.begin_transaction()
        hand_over(producer, topic, partition, some)
        assert producer.flush(60) == 0
        (producer.abort_transaction if number % 4 == 3 else producer.commit_transaction)()
        number += 1


def hand_over(producer: Producer, topic: str, partition: int, rows: Iterable[Row]) -> None:
    """Give records to a producer; wait while its queue is full."""
    for key, value, timestamp in rows:
        while True:
            try:
                producer.produce(topic, value, key, partition, timestamp=timestamp)
                break
            except BufferError:
                producer.poll(0.1)


def await_cleaned(site: Clusters, count: int, seconds: float = 120.0) -> None:
    """Wait until the source's cleaner has removed older values, which the target still holds."""
    began = time.monotonic()
    while True:
        cleaned, whole = sorted(size_of(folder) for folder in site.lab.root.rglob("profiles-0"))
        if cleaned < 0.9 * whole:
            say(f"  the source's cleaner left {cleaned / whole:.0%} of the compacted topic")
            return
        if time.monotonic() - began > seconds:
            raise TimeoutError(f"the source's cleaner removed nothing of {count:,} records in {seconds:.0f} s")
        time.sleep(1.0)


def size_of(folder: Path) -> int:
    """Return the bytes of a partition's segments."""
    return sum(path.stat().st_size for path in folder.glob("*.log"))


@contextmanager
def written_meanwhile(site: Clusters) -> Iterator[None]:
    """Let a client write to the source, and its copies come to the target, while the block runs."""
    over = threading.Event()

    def live() -> None:
        producers = [Producer({**site.settings(alias), **BATCH}) for alias in (SOURCE, TARGET)]
        number = 0
        while not over.wait(10 / LIVE_A_SECOND):
            stamp = int(time.time() * 1000)
            for _ in range(10):
                for producer in producers:
                    producer.produce("orders", b"live %d" % number, b"live", number % 10, timestamp=stamp)
                number += 1
            for producer in producers:
                producer.poll(0)
        for producer in producers:
            producer.flush(60)

    writer = threading.Thread(target=live)
    writer.start()
    try:
        yield
    finally:
        over.set()
        writer.join()


def beside_a_consumer(figures: Figures, site: Clusters, logs: Logs, given: Path, passes: int) -> None:
    """Warm passes in turn, then one fresh process of the job for its memory."""
    job = Job(site, given, "reconcile_clusters")
    seen: list[set[Difference]] = []
    with job.warm() as ours, ExitStack() as stack:
        theirs = {
            alias: stack.enter_context(
                kept(java_line("ConsumerPasses.java", str(site.java_properties(alias)), heap="1g"))
            )
            for alias in (SOURCE, TARGET)
        }
        contestants = {
            "warm pass of the comparison": lambda: our_pass(ours, given, seen),
            "Java consumer reading both sides": lambda: their_pass(theirs, logs.records),
        }
        took = in_turns(contestants, passes, warm_up=True)
    mine, plain = took.values()
    figures.measured(
        WARM, ratio(mine, plain), f"{logs.records / statistics.median(mine):,.0f} records a side and second"
    )
    found = seen[0]
    if any(other != found for other in seen):
        raise RuntimeError("two passes listed different records")
    missed, others = logs.planted - found, found - logs.planted
    figures.measured(
        PLANTED,
        len(logs.planted & found),
        str(Counter(one[2] for one in logs.planted)) + str(sorted(missed, key=str)[:3]),
    )
    figures.measured(OTHERS, len(others), str(sorted(others, key=str)[:3]))
    cold = job.cold()
    figures.measured(
        MEMORY, cold.driver, f"the workers beside them {cold.workers} MB; a fresh process {cold.seconds:.1f} s"
    )


def our_pass(passes: Passes, given: Path, seen: list[set[Difference]]) -> float:
    """One warm pass of the job; keep what it lists."""
    answer = json.loads(passes.ask(str(given)))
    output = Path(answer["output"])
    names = ("topic", "partition", "kind", "source_offset", "target_offset")
    listed: list[dict[str, Any]] = [
        row for path in (output / "differences").iterdir() for row in pq.read_table(path).to_pylist()
    ]
    seen.append({tuple(row[name] for name in names) for row in listed})  # type: ignore[misc]
    shutil.rmtree(output)
    return float(answer["seconds"])


def their_pass(peers: dict[str, Passes], least: int) -> float:
    """One pass of a Java consumer on each side at once, over all topics."""
    began = time.monotonic()

    def read(peer: Passes) -> int:
        return sum(int(peer.ask(f"{topic} 0").split()[1]) for topic in PARTITIONS)

    with ThreadPoolExecutor(len(peers)) as pool:
        counts = list(pool.map(read, peers.values()))
    if counts[-1] < 0.9 * least:
        raise RuntimeError(f"the Java consumer read {counts} records")
    return time.monotonic() - began
