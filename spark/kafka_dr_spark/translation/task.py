"""One Spark task of the translation: from the input rows of its partitions to their translation rows."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_dr_spark.contract.columns import Ints
from kafka_dr_spark.contract.digests import partition_digests
from kafka_dr_spark.contract.schemas import ContractBroken, arrow_schema
from kafka_dr_spark.contract.task_rows import (
    FLOOR,
    POSITION,
    SYNC,
    SYNC_BACK,
    Key,
    Kinds,
    TaskRows,
    pack_table,
    split_by_partition,
    unpack_table,
)
from kafka_dr_spark.logs.bounds import LogBounds
from kafka_dr_spark.logs.pairs import usable_pairs
from kafka_dr_spark.logs.samples import usable_floors
from kafka_dr_spark.logs.segment import Segment
from kafka_dr_spark.reading.matching import Records
from kafka_dr_spark.reading.windows import KafkaAccess, WindowReader
from kafka_dr_spark.translation.by_segment import Partition, Syncs, partition_of
from kafka_dr_spark.translation.case import Answer, Case, Limits, ReadWindow, Search, by_policy, refused_answer
from kafka_dr_spark.translation.partition import answers_without_reading, first_available, note_raised, plan_searches

ROW, REPORT = "row", "report"
# Most records compared at once: a fingerprint takes 33 bytes, and four times as many while it is being matched.
AT_ONCE = 8_000_000
Read = Callable[[list[ReadWindow]], list[Records]]


@lru_cache
def output_schema() -> pa.Schema:
    """Return the schema of a task's output: translation rows, and one report row per partition.

    Column ``kind`` is ROW or REPORT; a report row has its report as JSON in column ``evidence``.
    """
    return arrow_schema("translation").append(pa.field("kind", pa.string(), False))


def drive_searches(started: list[Search], read: Read) -> list[Any]:
    """Run searches to their ends and return their results, in order.

    The offset ranges that the searches request in one round are read together.
    """
    results: list[Any] = [None] * len(started)
    requested: dict[int, list[ReadWindow]] = {}

    def advance(number: int, records: list[Records] | None) -> None:
        """Send the search ``number`` the records that it requested; store what it requests next, or its result.

        ``records`` is None to start the search.
        """
        try:
            requested[number] = next(started[number]) if records is None else started[number].send(records)
        except StopIteration as done:
            requested.pop(number, None)
            results[number] = done.value

    for number in range(len(started)):
        advance(number, None)
    while requested:
        received = iter(read([window for windows in requested.values() for window in windows]))
        for number, windows in list(requested.items()):
            advance(number, [next(received) for _ in windows])
    return results


def translate_cases(
    cases: dict[tuple[Any, ...], tuple[Case, Ints]], read: Read
) -> dict[tuple[Any, ...], dict[int, Answer | None]]:
    """Return by key of ``cases`` the answer for each distinct source position.

    The answer is None if the group's policy must decide. ``read`` reads the offset ranges that it is given, from both
    clusters.
    """
    answers: dict[tuple[Any, ...], dict[int, Answer | None]] = {}
    started: list[tuple[tuple[Any, ...], Ints, Search]] = []
    for key, (case, positions) in cases.items():
        answers[key] = answers_without_reading(case, positions)
        unanswered = np.array([p for p, answer in answers[key].items() if answer is None], np.int64)
        to_search = np.unique(first_available(case, unanswered))
        started += [(key, group, search) for group, search in plan_searches(case, to_search)]
    for (key, group, _), results in zip(started, drive_searches([search for _, _, search in started], read)):
        _add_answers(cases[key][0], answers[key], dict(zip(group.tolist(), results)))
    return answers


def translate_partitions(
    partitions: dict[Key, tuple[Partition, Ints]], read: Read
) -> dict[Key, dict[int, Answer | None]]:
    """Return by partition the answer for each distinct source position; None if the group's policy must decide."""
    cases = {key: partition.cases(positions) for key, (partition, positions) in partitions.items()}
    case_answers = translate_cases(
        {(*key, number): case for key, partition_cases in cases.items() for number, case in enumerate(partition_cases)},
        read,
    )
    return {
        key: partition.answers(positions, [case_answers[*key, number] for number in range(len(cases[key]))])
        for key, (partition, positions) in partitions.items()
    }


def _add_answers(case: Case, answers: dict[int, Answer | None], results: dict[int, Answer | None]) -> None:
    start = case.bounds.source_start or 0
    first = results.get(start)
    answers.update(
        (position, answer) for position, answer in results.items() if position in answers and answers[position] is None
    )
    for position in [position for position in answers if position < start]:
        if answers[position] is None and first is not None:
            answers[position] = note_raised(case, position, first)


def task_portions(weights: dict[Key, int], most: int) -> Iterator[list[Key]]:
    """Yield portions of partitions whose weights add up to at most ``most``; a heavier partition is one portion."""
    portion: list[Key] = []
    weight = 0
    for key, added in weights.items():
        if portion and weight + added > most:
            yield portion
            portion, weight = [], 0
        portion.append(key)
        weight += added
    if portion:
        yield portion


class PartitionTask:
    """Translates the positions of one Spark task. Instances, with the client settings, are sent to the workers."""

    def __init__(
        self,
        bounds: dict[Key, LogBounds],
        limits: Limits,
        access: KafkaAccess,
        segments: dict[Key, tuple[Segment, ...]] | None = None,
    ) -> None:
        """Store what the task needs.

        Args:
            bounds: log starts and ends, by partition.
            limits: read limits.
            access: client settings of both clusters.
            segments: by partition its segments, oldest first; partitions whose replication direction never changed are
                left out.
        """
        self._bounds, self._limits, self._access, self._segments = bounds, limits, access, segments or {}

    def __call__(self, packed: bytes) -> bytes:
        """Return the packed output rows of the task (columns `output_schema`) for its packed input rows (`TAGGED`)."""
        return pack_table(self.translate(unpack_table(packed)))

    def translate(self, rows: pa.Table) -> pa.Table:
        """Return translation rows and report rows for input rows; partitions without positions are left out."""
        tables = {key: kinds for key, kinds in split_by_partition(rows).items() if len(kinds[POSITION])}
        with WindowReader(self._access, self._limits) as reader:
            finished = [batch for portion in self._portions(tables) for batch in self._translate(portion, reader.read)]
        return pa.Table.from_batches(finished, schema=output_schema()).combine_chunks()

    def _portions(self, tables: dict[Key, Kinds]) -> Iterator[dict[Key, Kinds]]:
        """Yield portions of partitions whose records fit into memory together."""
        weights = {}
        for key, kinds in tables.items():
            bounds, lowest = self._bounds.get(key), int(kinds[POSITION].numbers("a").min())
            span = min(bounds.cut_off - lowest, self._limits.content_limit) if bounds and bounds.cut_off else 0
            weights[key] = 2 * max(span, 0) * len(self._segments.get(key, " "))
        for portion in task_portions(weights, AT_ONCE):
            yield {key: tables[key] for key in portion}

    def _translate(self, kinds_by_partition: dict[Key, Kinds], read: Read) -> Iterator[pa.RecordBatch]:
        started_at, partitions = time.monotonic(), {}
        for key, kinds in kinds_by_partition.items():
            if key in self._bounds:
                partitions[key] = self._partition(key, kinds), np.unique(kinds[POSITION].numbers("a"))
        answers = translate_partitions(partitions, read)
        translated = {key: partition for key, (partition, _) in partitions.items()}
        tables = {
            key: finished_rows(
                key, kinds[POSITION], translated[key].whole if key in translated else None, answers.get(key, {})
            )
            for key, kinds in kinds_by_partition.items()
        }
        digests, seconds = (
            partition_digests(list(tables.values())),
            (time.monotonic() - started_at) / max(len(tables), 1),
        )
        reports = []
        for (key, table), digest in zip(tables.items(), digests):
            yield from table.to_batches()
            reports.append(
                report_row(key, {**partition_report(table, translated.get(key)), "digest": digest, "seconds": seconds})
            )
        yield pa.RecordBatch.from_pylist(reports, schema=output_schema())

    def _partition(self, key: Key, kinds: Kinds) -> Partition:
        syncs, syncs_back = _syncs(kinds[SYNC]), _syncs(kinds[SYNC_BACK])
        case = case_of(kinds, self._bounds[key], self._limits)
        usable_syncs = syncs if len(case.pairs) else (syncs[0][:0], syncs[1][:0], syncs[2][:0])
        return partition_of(case, self._segments.get(key, ()), usable_syncs, syncs_back)


def _syncs(rows: TaskRows) -> Syncs:
    return rows.numbers("a"), rows.numbers("b"), rows.numbers("c")


def case_of(kinds: Kinds, bounds: LogBounds, limits: Limits) -> Case:
    """Return the case of a whole partition, with its pairs and samples from ``kinds``, its input rows by kind.

    Pairs and samples of an older log are left out.
    """
    source_end, target_end, replicated, sampled_at = (kinds[FLOOR].numbers(name) for name in "abcd")
    floors = usable_floors(source_end, target_end, replicated, sampled_at, bounds)
    # A readable source or the recorder's samples show whether the target's log was replaced.
    unwatched = not (limits.source_readable or len(floors))
    pairs = usable_pairs(*_syncs(kinds[SYNC]), bounds, unwatched)
    return Case(bounds, pairs, limits, floors)


def finished_rows(key: Key, rows: TaskRows, case: Case | None, answers: dict[int, Answer | None]) -> pa.Table:
    """Return one translation row per group of a partition, with the answer for the group's source position.

    Raises:
        ContractBroken: a group has more than one row.
    """
    names = rows.column("name")
    if len(names) > 1 and pc.any(pc.equal(names[1:], names[:-1])).as_py():
        raise ContractBroken(
            f"positions: a group has more than one row for {key[0]}-{key[1]}, must have one; a new try of the Airflow"
            " task writes all input files again"
        )
    encoded = pc.dictionary_encode(rows.column("policy"))
    choices, policy = encoded.dictionary.to_pylist(), encoded.indices.to_numpy()
    # Each distinct position is answered once; groups at the same position take a copy of the answer.
    distinct, distinct_index = np.unique(rows.numbers("a"), return_inverse=True)
    distinct_answers = [_answer_for(case, answers, p, choice) for p in distinct.tolist() for choice in choices]
    answer_rows = pa.array(distinct_index * len(choices) + policy)
    columns = {
        name: pa.array(column).take(answer_rows)
        for name, column in zip(Answer._fields, _answer_columns(distinct_answers))
    }
    columns |= of_those_that_moved(columns, rows.column("c"), case)
    columns |= {name: rows.column(name) for name in ("topic", "partition")}
    columns |= {"group": names, "position": rows.column("a"), "position_at": rows.column("b")}
    columns["class"] = columns.pop("class_")
    columns["target_topic"] = pa.repeat(pa.scalar(case.bounds.target_topic if case else None, pa.string()), len(names))
    columns["kind"] = pa.repeat(ROW, len(names))
    return pa.table([columns[field.name].cast(field.type) for field in output_schema()], schema=output_schema())


def of_those_that_moved(columns: dict[str, pa.Array], moved: pa.Array, case: Case | None) -> dict[str, pa.Array]:
    """Return the columns ``bound`` and ``exact``, changed for groups whose source position may have risen.

    Such a group may have read all records whose copies lie at or above its target position, so its bound reaches to the
    boundary. The result is empty if the target partition does not exist.

    Args:
        columns: columns of the partition's translation rows, one row per group.
        moved: per row 1 if the group may have read on after its position was recorded.
        case: case of the partition; None if bounds.parquet has no row of the partition.
    """
    if case is None or not case.bounds.target_exists:
        return {}
    rest = pc.subtract(pa.scalar(case.bounds.boundary, pa.int64()), columns["target_position"].cast(pa.int64()))
    affected = pc.and_(pc.equal(moved, 1), pc.is_valid(columns["bound"]))
    return {
        "bound": pc.if_else(affected, rest, columns["bound"].cast(pa.int64())),
        "exact": pc.if_else(affected, pc.and_(pc.equal(rest, 0), columns["exact"]), columns["exact"]),
    }


def _answer_for(case: Case | None, answers: dict[int, Answer | None], position: int, policy: str) -> Answer:
    if case is None:
        return refused_answer("bounds.parquet has no row for this partition")
    return answers[position] or note_raised(case, position, by_policy(policy, case.bounds))


def _answer_columns(answers: list[Answer]) -> list[list[Any]]:
    return [list(column) for column in zip(*answers)]


def partition_report(table: pa.Table, partition: Partition | None) -> dict[str, Any]:
    """Return one partition's figures for the summary: positions, classes, bounds, refusals, and `Partition.report`."""
    refused_rows = table.filter(pc.equal(table["class"], "REFUSED"))
    answered_rows = table.filter(pc.not_equal(table["class"], "REFUSED"))
    report = {
        "positions": len(table),
        "exact": pc.sum(table["exact"]).as_py() or 0,
        "classes": {counted["values"]: counted["counts"] for counted in table["class"].value_counts().to_pylist()},
        "bound_max": pc.max(answered_rows["bound"]).as_py(),
        "bound_unknown": answered_rows["bound"].null_count,
        "refused": refused_rows.select(["group", "position", "evidence"]).slice(0, 100).to_pylist(),
    }
    return report if partition is None else {**report, **partition.report()}


def report_row(key: Key, report: dict[str, Any]) -> dict[str, Any]:
    """Return a partition's report as a row of `output_schema`, with the report as JSON in column ``evidence``."""
    row = dict.fromkeys(output_schema().names)
    row |= {
        "group": "",
        "topic": key[0],
        "partition": key[1],
        "position": 0,
        "position_at": 0,
        "class": "",
        "exact": False,
    }
    return row | {"evidence": json.dumps(report, ensure_ascii=False), "kind": REPORT}
