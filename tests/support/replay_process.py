"""A failback with exported stranded records, reduced to the replay: its journal, its files, and a process that replays.

Run as a program, this module is such a process, which a test kills, freezes and starts twice.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from kafka_dr.actions.failback.replay import Replay, figures_of, refuse_unproven
from kafka_dr.actions.failback.replay_plan import parts_of
from kafka_dr.actions.scope.position_frames import partitions_frame
from kafka_dr.config.settings import Request, Topology
from kafka_dr.connections import Connections
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import SwitchbackError
from kafka_dr.hooks.brokers.record import Record
from kafka_dr.hooks.brokers.record_reader import RecordReader
from kafka_dr.hooks.brokers.topics import READ_COMMITTED
from kafka_dr.procedure.run import Identity, Run
from kafka_dr.vocabulary import Entry, Step
from kafka_dr_spark.contract.schemas import arrow_schema
from kafka_dr_spark.reading.record_files import COMPRESSION, sha256_of

from tests.support.facts import open_run, stranded_topic, tell

PAIR = "primary+standby"
GROUP_ROWS = 500
MANY = 20_000
ROOT = Path(__file__).parents[2]
#: When stranded records were written unless a test says otherwise; brokers delete what is older than a topic's
#: retention, replayed or not.
RECENTLY = int(time.time() * 1000) - 3_600_000


def stranded(
    topic: str,
    partition: int,
    offset: int,
    key: bytes | None,
    value: bytes | None,
    headers: Iterable[tuple[str, bytes | None]] = (),
    timestamp: int | None = RECENTLY,
) -> Record:
    """Return a stranded record."""
    return Record(topic, partition, offset, timestamp, False, key, value, tuple(headers))


def write_export(
    folder: Path, records: Iterable[Record], uncommitted: Mapping[TopicPartition, Mapping[int, str]] = {}
) -> pd.DataFrame:
    """Write records as find_stranded_records does, one file per partition; return the receipt."""
    parts: dict[TopicPartition, list[Record]] = {}
    for record in records:
        parts.setdefault(record.topic_partition, []).append(record)
    for name in ("stranded", "uncommitted"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    return pd.DataFrame(
        [_write_partition(folder, where, held, uncommitted.get(where, {})) for where, held in parts.items()]
    )


def _write_partition(
    folder: Path, where: TopicPartition, records: list[Record], uncommitted: Mapping[int, str]
) -> dict[str, Any]:
    file = f"{where}.parquet"
    pq.write_table(
        pa.Table.from_pylist([_row(record) for record in records], schema=arrow_schema("stranded")),
        folder / "stranded" / file,
        compression=COMPRESSION,
        row_group_size=GROUP_ROWS,
    )
    told = {
        "topic": where.topic,
        "partition": where.partition,
        "records": len(records),
        "file": file,
        "sha256": sha256_of(folder / "stranded" / file),
        "uncommitted_sha256": None,
    }
    if uncommitted:
        states = {
            "topic": [where.topic] * len(uncommitted),
            "partition": [where.partition] * len(uncommitted),
            "offset": list(uncommitted),
            "state": list(uncommitted.values()),
        }
        pq.write_table(pa.table(states, schema=arrow_schema("uncommitted")), folder / "uncommitted" / file)
        told["uncommitted_sha256"] = sha256_of(folder / "uncommitted" / file)
    return told


def _row(record: Record) -> dict[str, Any]:
    digest = None if record.key is None else sha256(record.key).hexdigest()
    names, values = [name for name, _ in record.headers], [value for _, value in record.headers]
    return record._asdict() | {"key_sha256": digest, "header_names": names, "header_values": values}


def found_stranded(
    procedure: Run,
    records: list[Record],
    compacted: Iterable[str] = (),
    uncommitted: Mapping[TopicPartition, Mapping[int, str]] = {},
    after: str = "planned_failover-r0",
) -> None:
    """Write the outcome of find_stranded_records, with its export."""
    files = write_export(procedure.artifacts.folder / "export", records, uncommitted)
    first = {
        where: min(r.offset for r in records if r.topic_partition == where)
        for where in {r.topic_partition for r in records}
    }
    told = [
        stranded_topic(topic, records=n, bytes=n, first_at=1, last_at=2)
        for topic, n in pd.Series([r.topic for r in records]).value_counts().items()
    ]
    figures = {
        "digest": "f" * 64, "after": after, "topics": told, "compacted": list(compacted), "bytes_there": 500,
        "frontier": procedure.artifacts.save("frontier", partitions_frame(first, "source_end")),
        "export": {"folder": "export", "files": procedure.artifacts.save("export_files", files)},
    }  # fmt: skip
    tell(procedure, Step.FIND_STRANDED_RECORDS, Entry.OUTCOME, figures)


def failed_over(procedure: Run, boundary: Mapping[TopicPartition, int]) -> None:
    """Write the failover before the failback; its target ended at ``boundary`` when clients began to write."""
    before = Run.connected(
        Identity("planned_failover", "r0"),
        Request(source="standby", target="primary", reason="before"),
        procedure.topology,
        procedure.systems.connections,
    )
    open_run(before)
    boundary_file = before.artifacts.save("boundary", partitions_frame(boundary, "offset"))
    local_ends = before.artifacts.save("local_ends", partitions_frame({}, "offset"))
    plan = {"topics": [[tp.topic, tp.topic, 1, None] for tp in boundary]}
    tell(before, Step.FORECAST, Entry.OUTCOME, {"plan": plan})
    tell(before, Step.STOP_MIRROR_MAKER, Entry.OUTCOME, {"boundary": boundary_file})
    tell(before, Step.COMMIT_GROUPS, Entry.OUTCOME, {"local_ends": local_ends})
    procedure.journal.release_lease(PAIR, before.id, before.lease.epoch, "completed")


class OneCluster(Connections):
    """Connections of which only the new primary's reaches a cluster."""

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        self._folder, self._config = folder, dict(config)

    def kafka(self, connection_id: str) -> dict[str, Any]:
        """Return the new primary's settings, or an address without a broker."""
        return self._config if connection_id == "new" else {"bootstrap.servers": "127.0.0.1:9"}

    def journal_url(self, connection_id: str) -> str:
        """Return the URL of the journal's file."""
        return f"sqlite:///{self._folder}/journal.db"


def failback(
    folder: Path, config: Mapping[str, Any], decision: str = "replay", isolation: str = "read_uncommitted"
) -> Run:
    """Return a failback from `primary`, a real cluster, to `standby`, of which no broker is asked."""
    flows = [
        {
            "source": s,
            "target": t,
            "connect": "c",
            "isolation": isolation,
            "connectors": {"source": "s", "checkpoint": "c"},
        }
        for s, t in (("primary", "standby"), ("standby", "primary"))
    ]
    topology = Topology(
        clusters={"primary": {"connection": "new"}, "standby": {"connection": "returned"}},
        naming={"policy": "identity"},
        flows=flows,
        cool_down_seconds=0,
        routing={"kind": "file", "path": str(folder / "routing.json")},
        journal={"connection": "j"},
        airflow_api={"connection": "a"},
        spark={"connection": "s"},
        evidence=str(folder / "evidence"),
    )
    request = Request(
        source="primary",
        target="standby",
        reason="the site is back",
        choices={"mode": "recreate", "stranded": {".*": decision}},
    )
    return Run.connected(Identity("failback", "r1"), request, topology, OneCluster(folder, config))


def opened(procedure: Run) -> Run:
    """Open the procedure, which then holds the lease, and return it."""
    open_run(procedure)
    return procedure


def replay(procedure: Run) -> dict[str, Any]:
    """Do the work of reconcile_stranded_records after the decision is approved, in a new epoch of the lease."""
    procedure.lease.take_new_epoch()
    work = Replay(procedure, parts_of(procedure), Step.RECONCILE_STRANDED_RECORDS, lambda text: None)
    work.run()
    print("written", flush=True)
    proven = work.prove()
    refuse_unproven(procedure, proven)
    return figures_of(procedure, proven, work.aborted(), work.transactional_id).payload()


def seen(config: dict[str, Any], topic: str, isolation: str = READ_COMMITTED) -> list[Record]:
    """Return all records that a reader gets of a topic."""
    return list(RecordReader(config, "primary", isolation).read_all(topic))


def origins(records: list[Record]) -> list[tuple[int, int]]:
    """Return partition and offset of the replayed records' origins, from the headers of the replays."""
    found = [dict(record.headers).get("switchback.origin") for record in records]
    return [tuple(map(int, origin.decode().split("/")[2:])) for origin in found if origin is not None]


def many(topic: str, count: int = MANY) -> list[Record]:
    """Return stranded records of four partitions, with gaps in their offsets."""
    return [
        stranded(topic, number % 4, 100 + 3 * number, b"k%d" % number, b"v%d" % number, timestamp=RECENTLY + number)
        for number in range(count)
    ]


def process(folder: Path, config: dict[str, Any], waits: bool = False) -> subprocess.Popen:
    """Start a process that replays; if it waits, everything is loaded and it begins on request."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(str(ROOT / part) for part in ("plugins", "spark", "."))}
    started = subprocess.Popen(
        [sys.executable, "-m", "tests.support.replay_process"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    started.stdin.write(json.dumps({"folder": str(folder), "config": config}) + "\n")
    started.stdin.flush()
    assert started.stdout.readline() == "begun\n"
    if not waits:
        started.stdin.close()
    return started


def answer(started: subprocess.Popen) -> dict[str, Any]:
    """Return the last output of a process that was started."""
    return json.loads(started.stdout.read().splitlines()[-1])


if __name__ == "__main__":
    asked = json.loads(sys.stdin.readline())
    print("begun", flush=True)
    sys.stdin.readline()
    try:
        print(json.dumps(replay(failback(Path(asked["folder"]), asked["config"]))))
    except SwitchbackError as error:
        print(json.dumps({"error": type(error).__name__, "said": str(error)}))
