"""Both clusters compared on a lab, while clients write: each planted difference is listed, and nothing else."""

from __future__ import annotations

import os
import random
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
from kafka_dr_spark.contract import input as sources
from kafka_dr_spark.contract.task_rows import unpack_table
from kafka_dr_spark.reading.windows import KafkaAccess
from kafka_dr_spark.reconciliation.scope import load_judged
from kafka_dr_spark.reconciliation.task import ReconcileTask
from kafka_dr_spark.translation.case import Limits

from lab.environment.bring_up import up
from lab.environment.progress import wait_until
from lab.environment.state import Lab
from lab.environment.take_down import down
from tests.faults.records.planted_copies import (
    Copies,
    Place,
    Planted,
    Record,
    produce,
    with_differences,
    written_meanwhile,
)
from tests.faults.support.stepping import Run, Stepping, stepping
from tests.support.lab_clients import client, mirrored
from tests.support.rehearsals import SEED

PARAMS = {"source": "primary", "target": "standby", "reason": "are both clusters alike"}
KINDS = ("missing", "extra", "altered", "repeated")
RECORDS, EACH = 1_500, 5
#: Time of the first record: older than the lab's retention, its segments would be deleted in the middle of a case.
BEGAN = int(time.time() * 1000) - 3_600_000


class Compared:
    """A run of reconcile_clusters that was completed: its figures, and the differences it lists."""

    def __init__(self, lab: Lab, run: Run, evidence: dict[str, Any]) -> None:
        assert evidence["outcome"] == "completed", evidence["reason_for_outcome"]
        self.evidence = evidence
        figures = {step["id"]: step["figures"] for step in evidence["steps"]}
        self.bounds, self.figures = figures["set_bounds"], figures["compare_records"]
        self.folder = lab.evidence / run.procedure_id / self.figures["folder"]["folder"]
        self.rows = pd.read_parquet(self.folder / "reconciled.parquet").set_index(["topic", "partition"])

    def listed(self) -> dict[Place, set[tuple[str, int | None, int | None]]]:
        """Return what is listed, by partition: kind, source offset, target offset."""
        found: dict[Place, set[tuple[str, int | None, int | None]]] = {}
        for path in (self.folder / "differences").glob("*.parquet"):
            for row in pq.read_table(path).to_pylist():
                difference = row["kind"], row["source_offset"], row["target_offset"]
                found.setdefault((row["topic"], row["partition"]), set()).add(difference)
        return found


class Site:
    """A lab without Airflow with topics of every kind, a driver of steps, and what was planted."""

    def __init__(self, lab: Lab, driver: Stepping) -> None:
        self.lab, self.driver, self.copies, self.rng = lab, driver, Copies(lab), random.Random(SEED)
        self.planted: dict[Place, Planted] = {}

    def seed(self) -> None:
        """Write topics with plain, headered, recurring and transactional records, a compacted and an empty one."""
        copies = self.copies
        copies.create("plain", 3)
        for partition in range(3):
            copies.write("plain", [numbered(n, b"%d/%d" % (partition, n)) for n in range(RECORDS)], partition)
        copies.create("headered")
        copies.write("headered", [numbered(n, b"h-%d" % n, (("id", b"%d" % n), ("", None))) for n in range(RECORDS)])
        copies.create("recurring")
        copies.write("recurring", [Record(None, b"tick" if n % 3 else b"%d" % n, (), BEGAN) for n in range(RECORDS)])
        copies.create("stamped", message_timestamp_type="LogAppendTime")
        copies.write("stamped", [numbered(n, b"s-%d" % n) for n in range(RECORDS)])
        copies.create("compacted", cleanup_policy="compact")
        copies.write("compacted", [Record(b"%d" % (n % 100), b"v-%d" % n, (), BEGAN + n) for n in range(RECORDS)])
        copies.create("transactions")
        self.write_transactions("transactions")
        copies.create("empty", 2)
        self.topics = ("plain", "headered", "recurring", "stamped", "compacted", "transactions")
        copies.await_replicated(*self.topics)

    def write_transactions(self, topic: str) -> None:
        """Write committed and aborted transactions in turn."""
        producer = self.copies.producer(**{"transactional.id": "switchback-test"})
        producer.init_transactions()
        for number in range(RECORDS // 50):
            producer.begin_transaction()
            produce(producer, topic, [numbered(n, b"t-%d-%d" % (number, n)) for n in range(50)])
            assert producer.flush(60) == 0
            (producer.abort_transaction if number % 3 == 1 else producer.commit_transaction)()

    def plant(self) -> None:
        """Write the copies of the topics anew, with differences."""
        with self.copies.stopped():
            for topic in ("plain", "headered", "transactions"):
                self.planted |= self.copies.replace(topic, lambda log: with_differences(log, self.rng, EACH, RECORDS))
            self.planted |= self.copies.replace("recurring", lost_tick)
            self.planted |= self.copies.replace("compacted", stale_values)

    @contextmanager
    def load(self) -> Iterator[None]:
        """Clients that write to the plain and the compacted topic."""
        with written_meanwhile(self.copies, [*(("plain", p) for p in range(3)), ("compacted", 0), ("stamped", 0)]):
            yield

    def compare(self, params: dict[str, Any] | None = None, **how: Any) -> Compared:
        """Run the comparison to its end."""
        run = Run(PARAMS | (params or {}), dag_id="reconcile_clusters")
        return Compared(self.lab, run, self.driver.whole(run, **how))

    def judge(self, found: Compared) -> None:
        """Assert that exactly what was planted is listed."""
        listed, planted = found.listed(), {place: one.rows() for place, one in self.planted.items()}
        unlisted = {place: rows - listed.get(place, set()) for place, rows in planted.items()}
        others = {place: rows - planted.get(place, set()) for place, rows in listed.items()}
        assert not any(unlisted.values()) and not any(others.values()), f"not listed: {unlisted}; others: {others}"


def numbered(n: int, value: bytes, headers: tuple[tuple[str, bytes | None], ...] = ()) -> Record:
    """Make a record with a key and a time of its own."""
    return Record(b"k-%d" % n, value, headers, BEGAN + n)


def lost_tick(log: list[Record]) -> tuple[list[Record], Planted]:
    """Leave out a record that is the only one of its content, and one of two equal neighbours; repeat another."""
    missing = [log[300].offset, log[602].offset]
    copies = [record for record in log if record.offset not in missing]
    copies.insert(1_000, copies[997])
    return copies, Planted(missing=missing, repeated=[1_000])


def stale_values(log: list[Record]) -> tuple[list[Record], Planted]:
    """Leave out the latest values of two keys, of one all values, and add a key."""
    last = {record.key: row for row, record in enumerate(log)}
    gone = {last[b"7"], last[b"8"], *(row for row, record in enumerate(log) if record.key == b"9")}
    copies = [record for row, record in enumerate(log) if row not in gone]
    kept = {record.key: row for row, record in enumerate(copies)}
    altered = [(log[last[key]].offset, kept[key]) for key in (b"7", b"8")]
    foreign = len(copies)
    copies.append(Record(b"foreign", b"v", (), BEGAN))
    return copies, Planted(missing=[log[last[b"9"]].offset], extra=[foreign], altered=altered)


@pytest.fixture(scope="module", params=["identity", "default"])
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A lab of each naming policy."""
    state, folder = tmp_path_factory.mktemp("lab"), tmp_path_factory.mktemp("reconciled")
    try:
        up(state, airflow=False, policy=request.param)
        with stepping(Lab(state), folder) as driver:
            made = Site(Lab(state), driver)
            made.seed()
            yield made
    finally:
        down(state)
        shutil.rmtree(state, ignore_errors=True)


def test_whole_logs_have_no_difference_while_clients_write(site: Site) -> None:
    """Whatever the records are like; what comes after the bounds is behind, or not read."""
    with site.load():
        found = site.compare()
    assert found.listed() == {} and not any(found.figures[kind] for kind in KINDS), found.figures
    assert not [text for text in found.evidence["warnings"] if "differ" in text]
    assert found.figures["equal"] >= RECORDS * 7 and found.bounds["absent"] == []
    judged_by = found.rows["judged_by"].to_dict()
    assert judged_by["compacted", 0] == "latest" and judged_by["plain", 0] == "order"
    assert found.rows.loc["empty"]["source_records"].tolist() == [0, 0]


def test_each_planted_difference_is_listed_and_no_other(site: Site) -> None:
    """Of every kind, on every kind of topic, while clients write."""
    site.plant()
    with site.load():
        found = site.compare()
    site.judge(found)
    assert [text for text in found.evidence["warnings"] if "Records differ between the source and standby" in text]
    page = (site.lab.evidence / found.folder.parent.name / "evidence.html").read_text()
    assert "missing on the target" in page


def test_only_records_between_the_bounds_are_judged(site: Site) -> None:
    """By time and by offsets; of partitions that are not named, all."""
    (lower, upper), place = (500, 1_000), ("plain", 1)
    inside = {row for row in site.planted[place].rows() if row[1] is not None and lower <= row[1] < upper}
    for params in (
        {"topics": "plain", "since": at(lower), "until": at(upper)},
        {"topics": "plain", "offset_ranges": {"plain:1": f"{lower}-{upper}"}},
    ):
        found = site.compare(params)
        row = found.rows.loc[place]
        assert inside and {one for one in found.listed()[place] if one[1] is not None} == inside
        assert row["source_records"] <= upper - lower + 2_000
        assert row["equal"] == upper - lower - len(inside)


def test_a_hole_longer_than_any_bound_is_listed_as_far_as_it_is_chosen(site: Site) -> None:
    """Whatever is missing where the bounds are: records are read on until those on both sides are seen."""
    site.copies.create("outage")
    site.copies.write("outage", [numbered(n, b"o-%d" % n) for n in range(9_000)])
    site.copies.await_replicated("outage")
    with site.copies.stopped():
        hole = Planted(missing=list(range(500, 8_500)))
        site.planted |= site.copies.replace("outage", lambda log: ([*log[:500], *log[8_500:]], hole))
    for params in (
        {"topics": "outage", "since": at(3_000), "until": at(5_000)},
        {"topics": "outage", "offset_ranges": {"outage:0": "3000-5000"}},
    ):
        found = site.compare(params)
        assert found.listed() == {("outage", 0): {("missing", offset, None) for offset in range(3_000, 5_000)}}
        assert (found.figures["missing"], found.figures["equal"], found.figures["cut"]) == (2_000, 0, 0)


def at(n: int) -> str:
    """Return the time of the n-th numbered record."""
    return pd.Timestamp(BEGAN + n, unit="ms", tz="UTC").isoformat()


def test_a_killed_step_is_repeated(site: Site) -> None:
    """After every write to the journal: the same bounds, the same result."""
    run = Run(PARAMS, dag_id="reconcile_clusters")
    assert site.driver.step(run, "open_procedure") == "done"
    for step in ("set_bounds", "compare_records"):
        assert site.driver.killed_everywhere(run, step), step
    found = Compared(site.lab, run, site.driver.whole(run, after="compare_records"))
    site.judge(found)


@pytest.mark.parametrize("part", ["SparkSubmit", "pyspark.daemon"])
def test_a_killed_spark_job_is_repeated(site: Site, part: str) -> None:
    """Its driver, or its workers: the step is tried again, and its result is that of one whole job."""
    killed: list[int] = []
    killer = threading.Thread(target=lambda: killed.append(kill_spark(site.lab, part)))
    killer.start()
    found = site.compare()
    killer.join()
    assert killed
    site.judge(found)


def test_records_that_retention_deletes_while_the_job_runs_are_no_difference(site: Site) -> None:
    """The job's input is older than the logs' starts: what is left is compared."""
    place, first = ("plain", 2), 700
    found = site.compare({"topics": "plain"})
    (site.lab.root / "stale").mkdir()
    for name in ("bounds", "judged"):
        receipt = found.bounds[name]
        shutil.copy(found.folder.parent / receipt["file"], site.lab.root / "stale" / f"{name}.parquet")
    site.copies.delete_below("primary", "plain", 2, first)
    site.copies.delete_below("standby", mirrored(site.lab, "plain"), 2, first // 2)
    row = compare_stale(site.lab, site.lab.root / "stale")[place]
    planted = site.planted[place]
    assert row["missing"] == sum(offset >= first for offset in planted.missing)
    assert row["altered"] == sum(ours >= first for ours, _ in planted.altered)
    assert row["equal"] + row["missing"] + row["altered"] == row["source_records"] and row["behind"] == 0
    assert row["older"] > first // 3 and row["source_from"] == first


def compare_stale(lab: Lab, folder: Path) -> dict[Place, dict[str, Any]]:
    """Compare by an older input, in this process; return the rows by partition."""
    bounds = sources.load_bounds(folder, source_readable=True)
    access = KafkaAccess(*(client(lab, alias, "admin") for alias in ("primary", "standby")))
    (folder / "differences").mkdir()
    task = ReconcileTask(bounds, load_judged(folder, bounds), Limits(deadline_seconds=60), access, str(folder))
    return {(row["topic"], row["partition"]): row for row in unpack_table(task(list(bounds))).to_pylist()}


def kill_spark(lab: Lab, part: str) -> int:
    """Kill a process of the first Spark job that works for the lab, as soon as it runs; return its pid."""

    def running() -> int | None:
        commands = {int(entry.name): command_of(entry) for entry in Path("/proc").iterdir() if entry.name.isdigit()}
        drivers = [pid for pid, words in commands.items() if b"SparkSubmit" in words and bytes(lab.evidence) in words]
        return next((pid for pid in descendants(drivers) if part.encode() in commands.get(pid, b"")), None)

    pid = wait_until(running, f"{part} to run", 120.0)
    os.kill(pid, signal.SIGKILL)
    return pid


def command_of(entry: Path) -> bytes:
    """Return the command line of a process by its folder in /proc; b"" if it has ended."""
    try:
        return (entry / "cmdline").read_bytes()
    except OSError:
        return b""


def descendants(roots: list[int]) -> list[int]:
    """Return processes and all that descend from them."""
    found = list(roots)
    for pid in found:
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            with suppress(OSError):
                found += map(int, task.read_text().split())
    return found
