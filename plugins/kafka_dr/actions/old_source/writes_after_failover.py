"""List the records that a source accepted after clients left, from the loss assessment's log ends on.

The *known ends* are the source's log ends that the loss assessment recorded.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

import pandas as pd

from kafka_dr.actions.fencing.rules import source_rules, standing_change
from kafka_dr.actions.fencing.stable_log_ends import newest_records
from kafka_dr.actions.scope.position_frames import frame_partitions, partitions_frame
from kafka_dr.domain.fencing.armed_fence import accepted_ranges, shrunk_logs
from kafka_dr.domain.fencing.fence import FenceScope, client_principals
from kafka_dr.domain.kafka_model.acl import ANY_PRINCIPAL
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import BadInput, Contradiction, FenceNotProven, SystemUnavailable
from kafka_dr.procedure.entries import AcceptedRecords, DataLossAssessed, OldSourceProducers, Receipt
from kafka_dr.procedure.run import Run

_STABLE_CHECKS = 5
_NAMED = 10
#: Partitions whose producers are named.
_MOST_PARTITIONS_ASKED = 3
#: Added to the list of possible writers if the source allows every principal the use of topics without ACL entries.
_EVERY_PRINCIPAL = "every principal, on topics without ACL entries"


def known_ends(procedure: Run) -> dict[TopicPartition, int]:
    """Return source partition -> log end that the loss assessment recorded; {} if loss was not assessed."""
    assessed = procedure.progress.done(DataLossAssessed)
    return frame_partitions(procedure.artifacts.load(assessed.source_ends), "offset") if assessed else {}


def writes_after_failover(procedure: Run, topics: Iterable[str]) -> AcceptedRecords:
    """Return which offsets the fenced source accepted after clients left, from `known_ends` to stable log ends.

    Raises:
        FenceNotProven: records still arrive.
    """
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
    """Return the principals, without super users, that could write to these source topics before the fence.

    A record does not name its writer, so any of these principals, or a super user, may have written it.
    """
    if not topics:
        return []
    fence = standing_change(procedure, procedure.request.source)
    rules = source_rules(procedure).without_entries(fence.adds).with_entries(fence.removes)
    writers = client_principals(rules, FenceScope.writes(topics), procedure.exempt(procedure.request.source))
    return sorted((writers - {ANY_PRINCIPAL}) | {_EVERY_PRINCIPAL} if rules.allow_everyone else writers)


def producers_since(procedure: Run, receipt: Receipt) -> OldSourceProducers | None:
    """Return the producers, as brokers report them, of the three source partitions with most accepted records.

    None without accepted records. Brokers report a producer's id; only a transactional producer also has a
    transactional id.

    Args:
        receipt: of the accepted ranges of offsets, `AcceptedRecords.accepted`.
    """
    rows = procedure.artifacts.load(receipt)
    if rows.empty:
        return None
    largest = rows.assign(count=rows["to_offset"] - rows["from_offset"].fillna(0)).nlargest(
        _MOST_PARTITIONS_ASKED, "count"
    )
    partitions = [
        TopicPartition(topic, int(partition))
        for topic, partition in zip(largest["topic"], largest["partition"], strict=True)
    ]
    transactions = procedure.systems.transactions(procedure.request.source)
    try:
        names = {transaction.producer_id: transaction.transactional_id for transaction in transactions.known()}
        by_partition = {
            str(tp): [producer.named(names.get(producer.producer_id)) for producer in producers[:_NAMED]]
            for tp, producers in transactions.producers_on(partitions).items()
        }
        return OldSourceProducers(producers=by_partition)
    except (SystemUnavailable, BadInput) as error:
        return OldSourceProducers(producers={}, producers_problem=str(error))


def _known_ends(procedure: Run) -> tuple[dict[TopicPartition, int], str | None]:
    """Return `known_ends` and None; if the file of the known ends is missing or changed, {} and the reason.

    With {}, all records of the source count as accepted after clients left.
    """
    try:
        return known_ends(procedure), None
    except Contradiction as error:
        return {}, str(error)


def _stable_ends(procedure: Run, topics: list[str]) -> dict[TopicPartition, int]:
    """Wait until no log end of these source topics moves for `stable_seconds`; return partition -> log end.

    Raises:
        FenceNotProven: log ends still move after five attempts.
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
        f"log ends on {procedure.request.source} still move: {first_few(moved)}",
        "The ACL entries of the fence are set; no ACL entry stops a super user. Find out which client writes to these"
        " partitions, and stop that client. If the watcher reports this message, the watcher tries again by itself. If"
        " fence_source failed with this message, start a new run.",
    )


def log_ends(procedure: Run, topics: Iterable[str], seconds: float = 30.0) -> dict[TopicPartition, int]:
    """Return source partition of these topics -> current log end.

    Topics that the source lacks are left out, and partitions without leader, to which nobody can write.
    """
    infos = procedure.systems.source.topics(topics, timeout=seconds)
    return procedure.systems.source.ends([tp for info in infos.values() for tp in info.led], timeout=seconds)
