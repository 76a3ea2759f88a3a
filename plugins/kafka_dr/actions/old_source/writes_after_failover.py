"""Records an old source accepted after clients left: fenced log ends above the inventory's log ends."""

from __future__ import annotations

import time
from collections.abc import Iterable

import pandas as pd

from kafka_dr.actions.fencing.open_transactions import transaction_tool
from kafka_dr.actions.fencing.rules import source_rules
from kafka_dr.actions.fencing.stable_log_ends import newest_records
from kafka_dr.actions.scope.position_frames import frame_partitions, partitions_frame
from kafka_dr.domain.fencing.armed_fence import accepted_ranges, shrunk_logs
from kafka_dr.domain.fencing.fence import FenceScope, client_principals
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import BadInput, Contradiction, FenceNotProven, SystemUnavailable
from kafka_dr.procedure.entries import AcceptedRecords, DataLossAssessed, OldSourceProducers, Receipt
from kafka_dr.procedure.run import Run

_STABLE_CHECKS = 5
_NAMED = 10
#: Kafka's tool takes a second or two for each partition.
_MOST_PARTITIONS_ASKED = 3
#: Added if topics without ACL entries are open to every principal: only the fence closes such topics.
_EVERY_PRINCIPAL = "anybody, where a topic had no entries"


def known_ends(procedure: Run) -> dict[TopicPartition, int]:
    """Source log ends of the procedure's inventory; empty without an inventory."""
    assessed = procedure.progress.done(DataLossAssessed)
    return frame_partitions(procedure.artifacts.load(assessed.source_ends), "offset") if assessed else {}


def writes_after_failover(procedure: Run, topics: Iterable[str]) -> AcceptedRecords:
    """Records accepted since clients left: stable log ends of the fenced source above the inventory's ends."""
    ends = _stable_ends(procedure, list(topics))
    inventory_ends, problem = _known_ends(procedure)
    rows = accepted_ranges(inventory_ends, ends)
    largest = sorted(rows, key=lambda row: (row.from_offset or 0) - row.to_offset)[:_NAMED]
    frame = pd.DataFrame(rows, columns=["topic", "partition", "from_offset", "to_offset"])
    return AcceptedRecords(
        accepted=procedure.artifacts.save(
            "accepted", frame.astype({"topic": str, "partition": "int32", "from_offset": "Int64", "to_offset": "int64"})
        ),
        records_at_most=sum(row.to_offset - (row.from_offset or 0) for row in rows),
        partitions_written=len(rows),
        partitions_not_known_before=sum(row.from_offset is None for row in rows),
        logs_shorter_than_known=shrunk_logs(inventory_ends, ends)[:_NAMED],
        newest_records=newest_records(
            procedure, {TopicPartition(row.topic, row.partition): row.from_offset or 0 for row in largest}
        ),
        may_have_written=_writers_by_right(procedure, {row.topic for row in rows}),
        ends_at_fence=procedure.artifacts.save("ends_at_fence", partitions_frame(ends, "offset")),
        known_ends_problem=problem,
    )


def _writers_by_right(procedure: Run, topics: set[str]) -> list[str]:
    """Client principals with write rights but for the fence, since no record names its writer; no super users."""
    if not topics:
        return []
    rules = source_rules(procedure)
    writers = client_principals(rules, FenceScope.writes(topics), procedure.exempt(procedure.request.source))
    return sorted(writers | ({_EVERY_PRINCIPAL} if rules.allow_everyone else set()))


def producers_since(procedure: Run, receipt: Receipt) -> OldSourceProducers | None:
    """Producers of the partitions that accepted most, as brokers report them; None without records or tool.

    Takes seconds. Producers are distinguished by id; only a transactional producer has a name.

    Args:
        receipt: of the list of accepted ranges.
    """
    tool, rows = transaction_tool(procedure), procedure.artifacts.load(receipt)
    if tool is None or rows.empty:
        return None
    largest = rows.assign(count=rows["to_offset"] - rows["from_offset"].fillna(0)).nlargest(
        _MOST_PARTITIONS_ASKED, "count"
    )
    partitions = [
        TopicPartition(topic, int(partition))
        for topic, partition in zip(largest["topic"], largest["partition"], strict=True)
    ]
    try:
        names = {transaction.producer_id: transaction.transactional_id for transaction in tool.known()}
        by_partition = {
            str(tp): [producer.named(names.get(producer.producer_id)) for producer in tool.producers_on(tp)[:_NAMED]]
            for tp in partitions
        }
        return OldSourceProducers(producers=by_partition)
    except (SystemUnavailable, BadInput) as error:
        return OldSourceProducers(producers={}, producers_problem=str(error))


def _known_ends(procedure: Run) -> tuple[dict[TopicPartition, int], str | None]:
    """The inventory's ends and None; without its file {} and the reason: then all records count as accepted since."""
    try:
        return known_ends(procedure), None
    except Contradiction as error:
        return {}, str(error)


def _stable_ends(procedure: Run, topics: list[str]) -> dict[TopicPartition, int]:
    """Source log ends that are stable for a window.

    Raises:
        FenceNotProven: records still arrive; the watcher repeats the check.
    """
    before = log_ends(procedure, topics)
    for _ in range(_STABLE_CHECKS):
        time.sleep(procedure.request.deadlines.stable_seconds)
        after = log_ends(procedure, topics)
        if after == before:
            return after
        moved, before = sorted(tp for tp in after if after[tp] != before.get(tp)), after
    raise FenceNotProven(
        "Writes still get through on the old source",
        first_few(moved),
        "A super user passes every ACL: stop this writer; the watcher looks again by itself.",
    )


def log_ends(procedure: Run, topics: Iterable[str], seconds: float = 30.0) -> dict[TopicPartition, int]:
    """Log ends of these topics of the source; missing topics are left out."""
    infos = procedure.systems.source.topics(topics, timeout=seconds)
    return procedure.systems.source.ends(
        [TopicPartition(name, partition) for name, info in infos.items() for partition in info.partitions],
        timeout=seconds,
    )
