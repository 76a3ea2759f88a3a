"""Reads both sides of a job's input and keeps nothing: what any comparison of two logs costs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from confluent_kafka import Message
from pyspark import cloudpickle

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "spark"))

from kafka_dr_spark import session
from kafka_dr_spark.contract import input as sources
from kafka_dr_spark.contract.logins import take_logins
from kafka_dr_spark.contract.task_rows import Key
from kafka_dr_spark.job import client_access, common_options
from kafka_dr_spark.logs.bounds import LogBounds
from kafka_dr_spark.reading.windows import KafkaAccess, OpenWindow, WindowReader, without_garbage_collection
from kafka_dr_spark.stranded.task import COMPARED_AT_ONCE
from kafka_dr_spark.translation.case import SOURCE, TARGET, Limits, ReadWindow
from kafka_dr_spark.translation.task import task_portions

# Workers have the jobs' package, and not this module.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


class Counted(OpenWindow):
    """A window of which only the offsets are kept."""

    def take(self, messages: list[Message]) -> None:
        """Keep nothing."""

    def records(self) -> Any:
        """Return how many records there were."""
        return len(self.offsets)


class CountingReader(WindowReader):
    """Reads windows, one a partition and side, and counts their records."""

    opened = Counted

    def count(self, windows: list[ReadWindow]) -> list[int]:
        """Return how many records each window holds."""
        with without_garbage_collection():
            return self._read_wave(windows)


class Reading:
    """A task of Spark that reads both logs of its partitions, as the search for stranded records does."""

    def __init__(self, bounds: dict[Key, LogBounds], limits: Limits, clients: KafkaAccess) -> None:
        self._bounds, self._limits, self._clients = bounds, limits, clients

    def __call__(self, keys: list[Key]) -> dict[str, int]:
        """Return how many records each side held."""
        counts = {SOURCE: 0, TARGET: 0}
        with CountingReader(self._clients, self._limits) as reader:
            for some in task_portions({key: weight_of(self._bounds[key]) for key in keys}, COMPARED_AT_ONCE):
                windows = [window for key in some for window in both_logs(self._bounds[key])]
                for window, count in zip(windows, reader.count(windows)):
                    counts[window.side] += count
        return counts


def both_logs(bounds: LogBounds) -> list[ReadWindow]:
    """Return a partition's logs as windows."""
    place = bounds.partition
    return [
        ReadWindow(SOURCE, bounds.topic, place, bounds.source_start, bounds.cut_off),
        ReadWindow(TARGET, bounds.target_topic, place, bounds.target_start, bounds.boundary),
    ]


def weight_of(bounds: LogBounds) -> int:
    """Return how many records of both sides there are to read of a partition."""
    return sum(window.end - window.start for window in both_logs(bounds))


def run() -> None:
    """Read what a job's input names; write how many records there were where the job would write its summary."""
    wanted = common_options(__doc__).parse_args()
    limits, bounds = (
        sources.load_limits(wanted.input, wanted.content_limit, wanted.rows_per_read),
        sources.load_bounds(wanted.input, source_readable=True),
    )
    spark = session.spark_with_package("read_both")
    spread = sources.spread_partitions({key: weight_of(one) for key, one in bounds.items()}, spark.defaultParallelism)
    parts = [[key for key, task in spread.items() if task == number] for number in range(spark.defaultParallelism)]
    read = (
        spark.parallelize(parts, len(parts))
        .map(Reading(bounds, limits, client_access(take_logins(wanted.logins), source_readable=True)))
        .collect()
    )
    output = Path(wanted.output)
    output.mkdir()
    (output / "summary.json").write_text(
        json.dumps({"records_read": {side: sum(one[side] for one in read) for side in (SOURCE, TARGET)}})
    )


if __name__ == "__main__":
    run()
