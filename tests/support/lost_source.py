"""Stand-ins for Spark and for the flight recorder in tests of steps that work without the source."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.recorder_rows import Kind, RecorderRows
from kafka_dr.errors import SparkFailed
from kafka_dr.hooks.archive import Archive
from kafka_dr.recorder.loop import SAMPLES, SCHEMA
from kafka_dr_spark.contract import input as sources
from kafka_dr_spark.contract import output as sinks
from kafka_dr_spark.contract.schemas import ContractBroken
from kafka_dr_spark.contract.task_rows import FLOOR, POSITION, SEEN, STRETCH, SYNC
from kafka_dr_spark.export.place import AttemptFiles, ExportPlace
from kafka_dr_spark.loss.inventory import summarise_inventory, write_inventory
from kafka_dr_spark.loss.task import AssessmentTask
from kafka_dr_spark.reading.matching import Records
from kafka_dr_spark.reading.record_files import name_of
from kafka_dr_spark.reading.windows import KafkaAccess
from kafka_dr_spark.reconciliation.scope import load_judged
from kafka_dr_spark.reconciliation.task import ReconcileTask, summarise_reconciled, write_reconciled
from kafka_dr_spark.stranded import task as finding
from kafka_dr_spark.stranded.task import SearchTask
from kafka_dr_spark.translation.task import PartitionTask

_SIDES = {"source": "primary", "target": "standby"}


class JobsWithoutSpark:
    """Runs the jobs in this process, with their own checks of the input.

    Records come from the bench's clusters, into which a test has put them.

    Attributes:
        given: input folders, in order.
        made: output folders, in order.
    """

    def __init__(self, bench: Any) -> None:
        self.bench, self.given, self.made = bench, [], []

    def submit(self, procedure: Any, context: Any, job: str, given: Path, made: Path, in_vain: str) -> None:
        """Run a job in this process, in place of spark-submit."""
        try:
            sources.await_input(given, 5)
        except ContractBroken as error:
            raise SparkFailed(in_vain, str(error), "look") from None
        self.given.append(given)
        self.made.append(made)
        limits = sources.load_limits(given, None, None)
        bounds = sources.load_bounds(given, limits.source_readable and job != "assess_data_loss")
        folder = sinks.scratch_folder(made)
        summary = {
            "assess_data_loss": self._assess,
            "translate_offsets": self._translate,
            "find_stranded_records": self._find,
            "reconcile_clusters": self._reconcile,
        }[job](given, folder, bounds, limits)
        if (given / "translate_offsets").exists():
            self.submit(
                procedure,
                context,
                "translate_offsets",
                given / "translate_offsets",
                folder / "translate_offsets",
                in_vain,
            )
        sinks.publish_output(
            folder,
            made,
            {**summary, "seconds": {}, "export": {}},
            {
                "assess_data_loss": "loss_summary",
                "find_stranded_records": "stranded_figures",
                "reconcile_clusters": "reconciled_figures",
            }.get(job, "summary"),
        )

    def _assess(self, given: Path, folder: Path, bounds: dict, limits: Any) -> dict[str, Any]:
        rows = sources.tagged_rows(given, needed=(SYNC, SEEN, POSITION), optional=(FLOOR, STRETCH))
        task = AssessmentTask(bounds, limits, KafkaAccess(None, {}), ExportPlace(str(folder)))
        made = [task(one) for one in sources.packed_for_tasks(rows, dict.fromkeys(bounds, 0), 1)]
        return summarise_inventory(write_inventory(made, given, folder), len(bounds), "input")

    def _find(self, given: Path, folder: Path, bounds: dict, limits: Any) -> dict[str, Any]:
        rows = sources.tagged_rows(given, needed=(SYNC,), optional=(FLOOR,))
        task = SearchTask(
            bounds, sources.load_returned(given, bounds), limits, KafkaAccess({}, {}), ExportPlace(str(folder))
        )
        made = task((list(bounds), sources.packed_for_tasks(rows, dict.fromkeys(bounds, 0), 1)[0]))
        return finding.summarise_stranded(finding.write_findings([made], folder), "input")

    def _reconcile(self, given: Path, folder: Path, bounds: dict, limits: Any) -> dict[str, Any]:
        (folder / "differences").mkdir()
        judged = load_judged(given, bounds)
        made = ReconcileTask(bounds, judged, limits, KafkaAccess({}, {}), str(folder))(list(bounds))
        return summarise_reconciled(write_reconciled([made], folder), "input")

    def write_older(
        self, access: Any, limits: Any, files: AttemptFiles, kind: str, windows: list[Any], chosen: Any = None
    ) -> dict[Any, dict[str, Any]]:
        """Count records that only the old logs have, each of ten bytes, in place of writing them."""
        told = {}
        for window in windows:
            held = [
                o
                for o in self.read([window])[0].offsets.tolist()
                if window not in (chosen or {}) or chosen[window].of([o])[0]
            ]
            file = files.folder / kind / name_of(window.topic, window.partition)
            file.parent.mkdir(exist_ok=True)
            file.touch()
            told[window] = {"records": len(held), "bytes": 10 * len(held), "file": file.name, "sha256": "0" * 64}
        return told

    def list_stranded(
        self, access: Any, limits: Any, files: AttemptFiles, stable_ends: dict[Any, int], chosen: Any = None
    ) -> dict[Any, dict[str, Any]]:
        """Count records, each of ten bytes, in place of writing them."""
        told = {}
        for window, stable in stable_ends.items():
            held = [
                o
                for o in self.read([window])[0].offsets.tolist()
                if window not in (chosen or {}) or chosen[window].of([o])[0]
            ]
            file = files.folder / "stranded" / name_of(window.topic, window.partition)
            file.parent.mkdir(exist_ok=True)
            file.touch()
            told[window] = {
                "records": len(held),
                "bytes": 10 * len(held),
                "first_at": 5,
                "last_at": 9,
                "aborted": 0,
                "undecided": sum(o >= stable for o in held),
                "file": file.name,
                "sha256": "0" * 64,
            }
        return told

    def _translate(self, given: Path, folder: Path, bounds: dict, limits: Any) -> dict[str, Any]:
        rows = sources.tagged_rows(given)
        keys = dict.fromkeys(sources.measure_positions(rows), 0)
        task = PartitionTask(
            bounds, limits, KafkaAccess({} if limits.source_readable else None, {}), sources.load_segments(given)
        )
        return sinks.summarise_reports(
            sinks.write_rows([task(one) for one in sources.packed_for_tasks(rows, keys, 1)], folder), "input"
        )

    def read(self, windows: list[Any]) -> list[Records]:
        """Return the bench's records, in place of reading Kafka."""
        found = []
        for window in windows:
            held = self.bench.clusters[_SIDES[window.side]].records.get(
                TopicPartition(window.topic, window.partition), {}
            )
            offsets = np.array([offset for offset in sorted(held) if window.start <= offset < window.end], np.int64)
            zeros = np.zeros(len(offsets), np.uint64)
            found.append(
                Records(
                    offsets,
                    np.array([int(held[offset]) for offset in offsets.tolist()], np.uint64),
                    zeros,
                    zeros,
                    np.zeros(len(offsets), np.bool_),
                )
            )
        return found


class Recorder:
    """Writes samples of a flow, ten seconds apart, into an archive."""

    def __init__(self, folder: Path) -> None:
        self.archive = Archive(f"file://{folder}", "primary-to-standby")
        self.at = datetime(2026, 11, 1, 12, 0, tzinfo=UTC).timestamp()

    def sample(
        self, *rows: tuple[Kind, dict[str, Any]], answered: bool = True, problems: tuple[str, ...] = (), **told: Any
    ) -> int:
        """Store one sample; return its start, in milliseconds since 1970.

        Args:
            rows: rows of the sample.
            answered: whether the source answered.
            problems: problems of the sample.
            told: further details in the sample's own row.
        """
        self.at += 10
        sample = RecorderRows(int(self.at * 1000))
        for kind, values in rows:
            sample.add(kind, **({"partition": 0} if kind is Kind.PARTITION else {}) | values)
        sample.add(
            Kind.SAMPLE,
            details=json.dumps({"source_answered": answered, "problems": problems, "flows_back": False, **told}),
        )
        self.store(pa.table(sample.columns, SCHEMA), datetime.fromtimestamp(self.at, UTC))
        return sample.at

    def store(self, rows: pa.Table, at: datetime) -> None:
        """Put a sample's rows into the archive, unsigned."""
        self.archive.write(SAMPLES, rows, at)


def seen(
    source_end: int,
    target_end: int,
    topic: str = "orders",
    remote: str | None = None,
    partition: int = 0,
    replicated: int | None = None,
) -> tuple[Kind, dict[str, Any]]:
    """Return a partition's row of a sample."""
    remote = remote or topic
    ids = {"topic_id": f"id-{topic}", "target_topic_id": f"id-{remote}"}
    ends = {
        "source_start": 0,
        "source_end": source_end,
        "target_start": 0,
        "target_end": target_end,
        "replicated": replicated,
    }
    return Kind.PARTITION, {"topic": topic, "partition": partition, "target_topic": remote, **ids, **ends}


def held(group: str, position: int, topic: str = "orders", partition: int = 0) -> tuple[Kind, dict[str, Any]]:
    """Return a position's row of a sample."""
    return Kind.POSITION, {"group": group, "topic": topic, "partition": partition, "position": position}
