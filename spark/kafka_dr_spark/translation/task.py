"""One Spark task: take all rows of its partitions, drive their searches, and return finished rows."""

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
# Fingerprints take some 40 bytes a record, and twice that while they are matched.
AT_ONCE = 8_000_000
Read = Callable[[list[ReadWindow]], list[Records]]


@lru_cache
def output_schema() -> pa.Schema:
    """Return what a task hands back: translation rows, and one report a partition in ``evidence``."""
    return arrow_schema("translation").append(pa.field("kind", pa.string(), False))


def drive_searches(started: list[Search], read: Read) -> list[Any]:
    """Run searches side by side: the windows they ask for in one round are read together."""
    results: list[Any] = [None] * len(started)
    asking: dict[int, list[ReadWindow]] = {}

    def advance(number: int, records: list[Records] | None) -> None:
        """Give a search its records and note what it asks for next, or its result."""
        try:
            asking[number] = next(started[number]) if records is None else started[number].send(records)
        except StopIteration as done:
            asking.pop(number, None)
            results[number] = done.value

    for number in range(len(started)):
        advance(number, None)
    while asking:
        came = iter(read([window for windows in asking.values() for window in windows]))
        for number, windows in list(asking.items()):
            advance(number, [next(came) for _ in windows])
    return results


def translate_cases(
    cases: dict[tuple[Any, ...], tuple[Case, Ints]], read: Read
) -> dict[tuple[Any, ...], dict[int, Answer | None]]:
    """Return for each case the answer of each distinct position; None leaves it to the group's policy."""
    answers: dict[tuple[Any, ...], dict[int, Answer | None]] = {}
    started: list[tuple[tuple[Any, ...], Ints, Search]] = []
    for key, (case, positions) in cases.items():
        answers[key] = answers_without_reading(case, positions)
        unanswered = np.array([p for p, answer in answers[key].items() if answer is None], np.int64)
        wanted = np.unique(first_available(case, unanswered))
        started += [(key, group, search) for group, search in plan_searches(case, wanted)]
    for (key, group, _), found in zip(started, drive_searches([search for _, _, search in started], read)):
        _spread(cases[key][0], answers[key], dict(zip(group.tolist(), found)))
    return answers


def translate_partitions(
    partitions: dict[Key, tuple[Partition, Ints]], read: Read
) -> dict[Key, dict[int, Answer | None]]:
    """Return for each partition the answer of each distinct position; None leaves it to the group's policy."""
    cases = {key: partition.cases(positions) for key, (partition, positions) in partitions.items()}
    found = translate_cases(
        {(*key, number): case for key, some in cases.items() for number, case in enumerate(some)}, read
    )
    return {
        key: partition.answers(positions, [found[*key, number] for number in range(len(cases[key]))])
        for key, (partition, positions) in partitions.items()
    }


def _spread(case: Case, answers: dict[int, Answer | None], found: dict[int, Answer | None]) -> None:
    start = case.bounds.source_start or 0
    first = found.get(start)
    answers.update(
        (position, answer) for position, answer in found.items() if position in answers and answers[position] is None
    )
    for position in [position for position in answers if position < start]:
        if answers[position] is None and first is not None:
            answers[position] = note_raised(case, position, first)


def task_portions(weights: dict[Key, int], most: int) -> Iterator[list[Key]]:
    """Put partitions together that weigh no more than ``most``; one that is heavier stands alone."""
    portion: list[Key] = []
    weight = 0
    for key, more in weights.items():
        if portion and weight + more > most:
            yield portion
            portion, weight = [], 0
        portion.append(key)
        weight += more
    if portion:
        yield portion


class PartitionTask:
    """Translates the rows of one Spark task. Instances travel to the workers; so do the client settings inside."""

    def __init__(
        self,
        bounds: dict[Key, LogBounds],
        limits: Limits,
        access: KafkaAccess,
        segments: dict[Key, tuple[Segment, ...]] | None = None,
    ) -> None:
        """Prepare.

        Args:
            segments: of partitions whose logs grew by turns.
        """
        self._bounds, self._limits, self._access, self._segments = bounds, limits, access, segments or {}

    def __call__(self, packed: bytes) -> bytes:
        """Turn packed `TAGGED` rows into packed rows of `output_schema`."""
        return pack_table(self.translate(unpack_table(packed)))

    def translate(self, rows: pa.Table) -> pa.Table:
        """Turn `TAGGED` rows of positions and syncs into translation rows and reports."""
        tables = {key: kinds for key, kinds in split_by_partition(rows).items() if len(kinds[POSITION])}
        with WindowReader(self._access, self._limits) as reader:
            finished = [batch for some in self._portions(tables) for batch in self._translate(some, reader.read)]
        return pa.Table.from_batches(finished, schema=output_schema()).combine_chunks()

    def _portions(self, tables: dict[Key, Kinds]) -> Iterator[dict[Key, Kinds]]:
        """Hand out the partitions in portions whose records fit into memory together."""
        weights = {}
        for key, kinds in tables.items():
            known, lowest = self._bounds.get(key), int(kinds[POSITION].numbers("a").min())
            span = min(known.cut_off - lowest, self._limits.content_limit) if known and known.cut_off else 0
            weights[key] = 2 * max(span, 0) * len(self._segments.get(key, " "))
        for some in task_portions(weights, AT_ONCE):
            yield {key: tables[key] for key in some}

    def _translate(self, given: dict[Key, Kinds], read: Read) -> Iterator[pa.RecordBatch]:
        began, partitions = time.monotonic(), {}
        for key, kinds in given.items():
            if key in self._bounds:
                partitions[key] = self._partition(key, kinds), np.unique(kinds[POSITION].numbers("a"))
        answers = translate_partitions(partitions, read)
        known = {key: partition for key, (partition, _) in partitions.items()}
        tables = {
            key: finished_rows(key, kinds[POSITION], known[key].whole if key in known else None, answers.get(key, {}))
            for key, kinds in given.items()
        }
        digests, seconds = partition_digests(list(tables.values())), (time.monotonic() - began) / max(len(tables), 1)
        reports = []
        for (key, table), digest in zip(tables.items(), digests):
            yield from table.to_batches()
            reports.append(
                report_row(key, {**partition_report(table, known.get(key)), "digest": digest, "seconds": seconds})
            )
        yield pa.RecordBatch.from_pylist(reports, schema=output_schema())

    def _partition(self, key: Key, kinds: Kinds) -> Partition:
        syncs, back = _syncs(kinds[SYNC]), _syncs(kinds[SYNC_BACK])
        case = case_of(kinds, self._bounds[key], self._limits)
        known = syncs if len(case.pairs) else (syncs[0][:0], syncs[1][:0], syncs[2][:0])
        return partition_of(case, self._segments.get(key, ()), known, back)


def _syncs(rows: TaskRows) -> Syncs:
    return rows.numbers("a"), rows.numbers("b"), rows.numbers("c")


def case_of(kinds: Kinds, bounds: LogBounds, limits: Limits) -> Case:
    """Return what a partition's tagged rows say of it."""
    source_end, target_end, replicated, sampled_at = (kinds[FLOOR].numbers(name) for name in "abcd")
    floors = usable_floors(source_end, target_end, replicated, sampled_at, bounds)
    # A source that can be read, and a recorder's samples, tell themselves whether the target's log is the one that it
    # was.
    unwatched = not (limits.source_readable or len(floors))
    pairs = usable_pairs(*_syncs(kinds[SYNC]), bounds, unwatched)
    return Case(bounds, pairs, limits, floors)


def finished_rows(key: Key, rows: TaskRows, case: Case | None, answers: dict[int, Answer | None]) -> pa.Table:
    """Join the answers back to the groups: one row per group, in the translation's columns."""
    names = rows.column("name")
    if len(names) > 1 and pc.any(pc.equal(names[1:], names[:-1])).as_py():
        raise ContractBroken(f"positions: a group has more than one row for {key[0]}-{key[1]}")
    encoded = pc.dictionary_encode(rows.column("policy"))
    choices, policy = encoded.dictionary.to_pylist(), encoded.indices.to_numpy()
    # Each distinct position is answered once; groups that share it only take a copy.
    distinct, where = np.unique(rows.numbers("a"), return_inverse=True)
    said = [_answer_for(case, answers, p, choice) for p in distinct.tolist() for choice in choices]
    taken = pa.array(where * len(choices) + policy)
    columns = {name: pa.array(column).take(taken) for name, column in zip(Answer._fields, _columns(said))}
    columns |= of_those_that_moved(columns, rows.column("c"), case)
    columns |= {name: rows.column(name) for name in ("topic", "partition")}
    columns |= {"group": names, "position": rows.column("a"), "position_at": rows.column("b")}
    columns["class"] = columns.pop("class_")
    columns["target_topic"] = pa.repeat(pa.scalar(case.bounds.target_topic if case else None, pa.string()), len(names))
    columns["kind"] = pa.repeat(ROW, len(names))
    return pa.table([columns[field.name].cast(field.type) for field in output_schema()], schema=output_schema())


def of_those_that_moved(columns: dict[str, pa.Array], moved: pa.Array, case: Case | None) -> dict[str, pa.Array]:
    """Return bound and exactness for groups that may have moved on: up to all the target holds from there."""
    if case is None or not case.bounds.target_exists:
        return {}
    rest = pc.subtract(pa.scalar(case.bounds.boundary, pa.int64()), columns["target_position"].cast(pa.int64()))
    concerned = pc.and_(pc.equal(moved, 1), pc.is_valid(columns["bound"]))
    return {
        "bound": pc.if_else(concerned, rest, columns["bound"].cast(pa.int64())),
        "exact": pc.if_else(concerned, pc.equal(rest, 0), columns["exact"]),
    }


def _answer_for(case: Case | None, answers: dict[int, Answer | None], position: int, policy: str) -> Answer:
    if case is None:
        return refused_answer("no bounds were given for this partition")
    return answers[position] or note_raised(case, position, by_policy(policy, case.bounds))


def _columns(said: list[Answer]) -> list[list[Any]]:
    return [list(column) for column in zip(*said)]


def partition_report(table: pa.Table, partition: Partition | None) -> dict[str, Any]:
    """Return what the summary needs to know of one partition."""
    refused_rows = table.filter(pc.equal(table["class"], "REFUSED"))
    known = table.filter(pc.not_equal(table["class"], "REFUSED"))
    report = {
        "positions": len(table),
        "exact": pc.sum(table["exact"]).as_py() or 0,
        "classes": {one["values"]: one["counts"] for one in table["class"].value_counts().to_pylist()},
        "bound_max": pc.max(known["bound"]).as_py(),
        "bound_unknown": known["bound"].null_count,
        "refused": refused_rows.select(["group", "position", "evidence"]).slice(0, 100).to_pylist(),
    }
    return report if partition is None else {**report, **partition.report()}


def report_row(key: Key, report: dict[str, Any]) -> dict[str, Any]:
    """Return a report in the shape of a row."""
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
