"""The flight recorder killed or starved of space comes back or goes on, and its archive says what it saw."""

from __future__ import annotations

import json
import os
import resource
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic
from kafka_dr.domain.recorder_rows import Kind
from kafka_dr.hooks.archive import Archive
from kafka_dr.recorder.history import Recorded, last_known
from kafka_dr.recorder.loop import SAMPLES

from lab.environment.brokers import admin_client
from lab.environment.connect import start_worker
from lab.environment.state import Lab
from lab.rehearsal.planned import SOURCE, TARGET
from lab.rehearsal.unplanned import SAMPLING_SECONDS, LostSourceRehearsal
from tests.faults.support.damage import SYNCS_TOPIC, log_end
from tests.faults.support.lost_scene import LostScene, lost_scene
from tests.faults.support.scene import until
from tests.support.rehearsals import SEED

COMMAND = "kafka_dr.commands.record_positions"
#: No sample is so small: writing one ends in the middle.
HALF_BYTES = 100
FROZEN_SECONDS = 45.0
#: A request waits four seconds for its answer: a look that was begun so long before the thaw was answered nothing.
ASKED_SECONDS = 5.0
#: Also from a kill to the next sample: Airflow tries again after five seconds, and has to start two processes.
SECONDS = 90.0
RECREATED, OLD_RECORDS, NEW_RECORDS = "case-recreated", 20, 3
COUNTED_SECONDS = 80.0


def archive_of(lab: Lab) -> Archive:
    """What the recorder keeps of the flow from the source."""
    return Archive(f"file://{lab.archive}", f"{SOURCE}-to-{TARGET}")


def rows_of(lab: Lab) -> pd.DataFrame:
    """All that was recorded, in order; numbers that may be missing stay whole."""
    return (
        archive_of(lab)
        .read(SAMPLES)
        .to_pandas(types_mapper=lambda kind: pd.Int64Dtype() if pa.types.is_integer(kind) else None)
        .sort_values("at", kind="stable", ignore_index=True)
    )


def samples_of(lab: Lab) -> list[dict[str, Any]]:
    """What each sample says of itself, in order."""
    table = archive_of(lab).read(SAMPLES, columns=["at", "kind", "details"]).to_pylist()
    return sorted(
        ({"at": row["at"], **json.loads(row["details"])} for row in table if row["kind"] == Kind.SAMPLE),
        key=lambda one: one["at"],
    )


def recorders(lab: Lab) -> list[int]:
    """The recorder's processes that live."""
    found = []
    for pid in lab.processes.members():
        try:
            found += [pid] if COMMAND in psutil.Process(pid).cmdline() else []
        except psutil.Error:
            # It ended a moment ago.
            continue
    return found


def now_ms() -> int:
    """Milliseconds since 1970."""
    return int(1000 * time.time())


# -- killed ----------------------------------------------------------------------------------------------------------


def halves(lab: Lab) -> list[Path]:
    """Files that were begun, and never became a sample."""
    return list(lab.archive.rglob(".writing-*"))


def kill(lab: Lab, pid: int) -> None:
    """The recorder itself, at any moment."""
    os.kill(pid, signal.SIGKILL)


def kill_while_it_writes(lab: Lab, pid: int) -> None:
    """The recorder itself, when half a sample is on disk."""
    _, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (HALF_BYTES, most))
    until(lambda: halves(lab), "half a sample", SECONDS)
    os.kill(pid, signal.SIGKILL)


def kill_its_task(lab: Lab, pid: int) -> None:
    """The process of Airflow's task, whose child the recorder is."""
    os.kill(psutil.Process(pid).ppid(), signal.SIGKILL)


def seconds_away(lab: Lab, strike: Callable[[Lab, int], None]) -> float:
    """Strike; how long it took until another recorder had kept a sample, once the struck one is gone."""
    (struck,) = until(lambda: recorders(lab), "a recorder", SECONDS)
    strike(lab, struck)
    began, struck_at = time.monotonic(), now_ms()
    until(lambda: struck not in recorders(lab), "the struck recorder's end", SECONDS)
    until(lambda: samples_of(lab)[-1]["at"] > struck_at, "a sample of another recorder", SECONDS)
    return time.monotonic() - began


def test_a_killed_recorder_is_started_again(fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """Killed three times under its DAG: samples go on whole, and no statement is missing or doubled."""
    rehearsal = LostSourceRehearsal(fresh_lab("identity"), tmp_path, SEED, 1_000, scale=0.05, groups=4)
    lab = rehearsal.lab
    try:
        rehearsal.seed_topics()
        rehearsal.start_load()
        rehearsal.await_samples()
        away = {
            strike.__name__: round(seconds_away(lab, strike), 1)
            for strike in (kill, kill_while_it_writes, kill_its_task)
        }
        print(f"seconds without a sample: {away}", flush=True)
        rehearsal.load.stop()
        syncs = log_end(admin_client(lab, TARGET), SYNCS_TOPIC)
        rehearsal.await_samples()
        assert len(recorders(lab)) == 1
        left = halves(lab)
        assert left and all(path.stat().st_size <= HALF_BYTES for path in left)
        for path in lab.archive.rglob("[!.]*.parquet"):
            pq.read_table(path, partitioning=None)
        rows = rows_of(lab)
        sequences = sorted(rows.loc[rows["kind"] == Kind.SYNC, "sequence"])
        assert sequences == list(range(len(sequences))) and len(sequences) >= syncs > 0
        found = known(lab)
        assert found.source_at == found.last_at >= rows["at"].max()
    finally:
        rehearsal.stop()


# -- what it looks at goes away --------------------------------------------------------------------------------------


def test_what_goes_away_is_named_and_all_else_goes_on(fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """The target frozen, its Connect worker killed, a topic of the source made anew: one recorder sees it all."""
    with lost_scene(fresh_lab("identity", airflow=False), tmp_path, clients=False) as scene:
        scene.put_under_load()
        before = recorders(scene.lab)
        assert len(before) == 1
        frozen_target(scene)
        killed_worker(scene)
        recreated_topic(scene)
        assert recorders(scene.lab) == before


def frozen_target(scene: LostScene) -> None:
    """While it is frozen every sample says so, and has the source's side alone; after that both are there again."""
    lab = scene.lab
    broker = lab.processes.pid(f"broker-{TARGET}")
    os.kill(broker, signal.SIGSTOP)
    since = now_ms()
    try:
        time.sleep(FROZEN_SECONDS)
    finally:
        until_ms = now_ms() - int(1000 * ASKED_SECONDS)
        os.kill(broker, signal.SIGCONT)
    until(
        lambda: samples_of(lab)[-1]["at"] > until_ms and not named(lab, "the target"),
        "a sample of a target that answers",
        SECONDS,
        1.0,
    )
    meanwhile = [one for one in samples_of(lab) if since < one["at"] < until_ms]
    assert meanwhile, "no sample was begun while the target was frozen"
    print(
        f"{len(meanwhile)} samples of a frozen target, each in at most {max(one['took_ms'] for one in meanwhile)} ms:"
        f" {meanwhile[-1]['problems']}",
        flush=True,
    )
    assert all(
        any(text.startswith("the target") for text in one["problems"]) and one["source_answered"] for one in meanwhile
    )
    rows = rows_of(lab)
    seen = rows[(rows["kind"] == Kind.PARTITION) & rows["at"].isin([one["at"] for one in meanwhile])]
    assert len(seen) and seen["target_end"].isna().all() and seen["source_end"].notna().all()
    floors = known(lab).floors
    assert not floors["sampled_at"].isin([one["at"] for one in meanwhile]).any(), (
        "an end that nobody read places a group"
    )


def killed_worker(scene: LostScene) -> None:
    """Connect is named; both clusters' ends go on being read, and its states come back with it."""
    lab, since = scene.lab, now_ms()
    os.kill(lab.processes.pid(f"connect-{TARGET}"), signal.SIGKILL)
    until(lambda: lab.processes.pid(f"connect-{TARGET}") is None, "the worker's end")
    scene.rehearsal.await_samples()
    last = samples_of(lab)[-1]
    assert last["at"] > since and last["source_answered"] and last["connectors"] == {}
    assert any(text.startswith("Connect") for text in last["problems"]), last
    rows = rows_of(lab)
    seen = rows[(rows["kind"] == Kind.PARTITION) & (rows["at"] == last["at"])]
    assert len(seen) and seen["target_end"].notna().all() and seen["source_end"].notna().all()
    start_worker(lab, TARGET)
    until(
        lambda: not named(lab, "Connect") and "RUNNING" in samples_of(lab)[-1]["connectors"].get("source", ""),
        "Connect's states",
        SECONDS,
        1.0,
    )


def recreated_topic(scene: LostScene) -> None:
    """What was recorded of the topic before speaks of another log, and counts no more."""
    lab = scene.lab
    there, here = admin_client(lab, TARGET), admin_client(lab, SOURCE)
    make(lab, OLD_RECORDS)
    until(lambda: log_end(there, RECREATED) == OLD_RECORDS, f"{RECREATED} on {TARGET}", SECONDS)
    until(
        lambda: source_end(lab) == OLD_RECORDS and len(of_topic(lab, "pairs")),
        f"{RECREATED} in the archive",
        SECONDS,
        1.0,
    )
    first = topic_id(lab)
    here.delete_topics([RECREATED])[RECREATED].result(SECONDS)
    until(lambda: RECREATED in known(lab).gone, "a sample in which it is gone", SECONDS, 1.0)
    assert not len(of_topic(lab, "partitions"))
    make(lab, NEW_RECORDS)
    until(
        lambda: RECREATED not in known(lab).gone and source_end(lab) == NEW_RECORDS,
        "a sample of the new one",
        SECONDS,
        1.0,
    )
    scene.rehearsal.await_samples()
    assert topic_id(lab) not in (None, first)
    print({name: of_topic(lab, name).to_dict("records") for name in ("floors", "pairs", "syncs")}, flush=True)
    assert len(of_topic(lab, "floors")) and (of_topic(lab, "floors")["source_end"] <= NEW_RECORDS).all()
    assert (of_topic(lab, "pairs")["source_end"] <= NEW_RECORDS).all()
    assert (of_topic(lab, "syncs")["upstream"] < NEW_RECORDS).all()


def make(lab: Lab, records: int) -> None:
    """The topic, with records, on the source; one that was just deleted may still be there for a moment."""
    client = admin_client(lab, SOURCE)
    until(lambda: RECREATED not in client.list_topics(timeout=SECONDS).topics, f"{RECREATED} gone")
    client.create_topics([NewTopic(RECREATED, 1, 1)])[RECREATED].result(SECONDS)
    producer, said = Producer({**lab.client_properties(SOURCE, "admin"), "log_level": 0}), list[object]()
    for number in range(records):
        producer.produce(
            RECREATED,
            f"{number} at {time.time_ns()}".encode(),
            partition=0,
            on_delivery=lambda error, _: said.append(error),
        )
    producer.flush(SECONDS)
    assert said == [None] * records


def known(lab: Lab) -> Recorded:
    """What the archive says now."""
    return last_known(archive_of(lab))


def of_topic(lab: Lab, name: str) -> pd.DataFrame:
    """One of its frames, of the topic alone."""
    frame = getattr(known(lab), name)
    return frame[frame["topic"] == RECREATED]


def source_end(lab: Lab) -> int | None:
    """Where the topic ended on the source, as far as was recorded."""
    return next(iter(of_topic(lab, "partitions")["source_end"]), None)


def topic_id(lab: Lab) -> str | None:
    """Which topic of that name was recorded last."""
    return next(iter(of_topic(lab, "partitions")["topic_id"]), None)


def named(lab: Lab, what: str) -> bool:
    """Whether the newest sample could not read something."""
    return any(text.startswith(what) for text in samples_of(lab)[-1]["problems"])


# -- own pairs -------------------------------------------------------------------------------------------------------


def lacking(rows: pd.DataFrame, topics: set[str], since: int, until_ms: int) -> tuple[list[tuple[int, str, int]], int]:
    """Samples and partitions that had grown and have no new pair, and how many had grown."""
    ends: dict[tuple[str, int], int] = {}
    pairs = {(row.at, row.topic, row.partition) for row in rows[rows["kind"] == Kind.PAIR].itertuples()}
    without, grown = list[tuple[int, str, int]](), 0
    seen = rows[
        (rows["kind"] == Kind.PARTITION)
        & rows["topic"].isin(topics)
        & rows["target_end"].notna()
        & rows["source_end"].notna()
    ]
    for row in seen.itertuples():
        place = row.topic, row.partition
        if since < row.at < until_ms and row.target_end > ends.get(place, row.target_end):
            grown += 1
            without += [] if (row.at, *place) in pairs else [(row.at, *place)]
        ends[place] = row.target_end
    return without, grown


@pytest.mark.parametrize(("rate", "share"), [(2_000, 1.0), (20_000, 0.0)])
def test_a_pair_for_every_partition_and_interval(
    rate: int, share: float, fresh_lab: Callable[..., Path], tmp_path: Path
) -> None:
    """Every sample has one while replication keeps up; under more load the sample counts those without."""
    with lost_scene(fresh_lab("identity", airflow=False), tmp_path, rate=rate, clients=False) as scene:
        lab = scene.lab
        topology = yaml.safe_load(lab.topology.read_text())
        lab.topology.write_text(
            yaml.safe_dump(
                topology | {"recorder": topology["recorder"] | {"interval_seconds": SAMPLING_SECONDS}}, sort_keys=False
            )
        )
        scene.put_under_load()
        since = now_ms()
        time.sleep(COUNTED_SECONDS)
        scene.rehearsal.await_samples()
        until_ms = now_ms()
        scene.rehearsal.load.stop()
        rows = rows_of(lab)
        without, grown = lacking(rows, set(scene.rehearsal.load.topics), since, until_ms)
        looks = [one for one in samples_of(lab) if since < one["at"] < until_ms]
        print(
            f"{rate} records/s: {grown - len(without)} pairs of {grown} partitions that grew, in {len(looks)} samples;"
            f" the longest look took {max(one['took_ms'] for one in looks)} ms",
            flush=True,
        )
        assert len(looks) >= 5 and grown >= 5 * sum(scene.rehearsal.load.topics.values())
        assert grown - len(without) >= share * grown, without[:10]
        untold = {at for at, *_ in without} - {
            one["at"] for one in looks if any(text.startswith("own pairs") for text in one["problems"])
        }
        assert not untold, "a sample lacks pairs, and does not say so"
