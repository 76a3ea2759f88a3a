"""What an old source accepted after clients left: read behind the proven fence, above the inventory's ends."""

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

_STILL_LOOKS = 5
_NAMED = 10
#: Kafka's tool takes a second or two for each partition.
_ASKED = 3
#: Where a topic without entries is open to everyone, the fence alone has closed it.
_ANYBODY = "anybody, where a topic had no entries"


def known_ends(procedure: Run) -> dict[TopicPartition, int]:
    """Where the source's logs were last known to end, by the procedure's inventory; empty without one."""
    assessed = procedure.progress.done(DataLossAssessed)
    return frame_partitions(procedure.artifacts.load(assessed.source_ends), "offset") if assessed else {}


def writes_after_failover(procedure: Run, topics: Iterable[str]) -> AcceptedRecords:
    """Records the source accepted since it was left: still log ends behind the fence less ends in the inventory."""
    ends = _still_ends(procedure, list(topics))
    known, problem = _known_ends(procedure)
    rows = accepted_ranges(known, ends)
    most = sorted(rows, key=lambda row: (row.from_offset or 0) - row.to_offset)[:_NAMED]
    frame = pd.DataFrame(rows, columns=["topic", "partition", "from_offset", "to_offset"])
    return AcceptedRecords(
        accepted=procedure.artifacts.save(
            "accepted", frame.astype({"topic": str, "partition": "int32", "from_offset": "Int64", "to_offset": "int64"})
        ),
        records_at_most=sum(row.to_offset - (row.from_offset or 0) for row in rows),
        partitions_written=len(rows),
        partitions_not_known_before=sum(row.from_offset is None for row in rows),
        logs_shorter_than_known=shrunk_logs(known, ends)[:_NAMED],
        newest_records=newest_records(
            procedure, {TopicPartition(r.topic, r.partition): r.from_offset or 0 for r in most}
        ),
        may_have_written=_writers_by_right(procedure, {row.topic for row in rows}),
        ends_at_fence=procedure.artifacts.save("ends_at_fence", partitions_frame(ends, "offset")),
        known_ends_problem=problem,
    )


def _writers_by_right(procedure: Run, topics: set[str]) -> list[str]:
    """Client principals with the right to write there, fence apart, as no record names its writer; no super users."""
    if not topics:
        return []
    rules = source_rules(procedure)
    named = client_principals(rules, FenceScope.writes(topics), procedure.exempt(procedure.request.source))
    return sorted(named | ({_ANYBODY} if rules.allow_everyone else set()))


def producers_since(procedure: Run, receipt: Receipt) -> OldSourceProducers | None:
    """Producers of the partitions that accepted most, as brokers remember them; None without records or tool.

    Takes seconds. An id tells one producer from another; only a transactional one has a name.

    Args:
        receipt: of the list of what was accepted.
    """
    tool, rows = transaction_tool(procedure), procedure.artifacts.load(receipt)
    if tool is None or rows.empty:
        return None
    most = rows.assign(count=rows["to_offset"] - rows["from_offset"].fillna(0)).nlargest(_ASKED, "count")
    places = [TopicPartition(topic, int(p)) for topic, p in zip(most["topic"], most["partition"], strict=True)]
    try:
        names = {known.producer_id: known.transactional_id for known in tool.known()}
        found = {
            str(tp): [one.named(names.get(one.producer_id)) for one in tool.producers_on(tp)[:_NAMED]] for tp in places
        }
        return OldSourceProducers(producers=found)
    except (SystemUnavailable, BadInput) as error:
        return OldSourceProducers(producers={}, producers_problem=str(error))


def _known_ends(procedure: Run) -> tuple[dict[TopicPartition, int], str | None]:
    """The inventory's ends; where its file is gone everything counts as accepted since, and why is said."""
    try:
        return known_ends(procedure), None
    except Contradiction as error:
        return {}, str(error)


def _still_ends(procedure: Run, topics: list[str]) -> dict[TopicPartition, int]:
    """Log ends that stand still for a window.

    Raises:
        FenceNotProven: records still arrive; the next look looks again.
    """
    before = log_ends(procedure, topics)
    for _ in range(_STILL_LOOKS):
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
    """Log ends of these topics of the source, as far as they are there."""
    infos = procedure.systems.source.topics(topics, timeout=seconds)
    return procedure.systems.source.ends(
        [TopicPartition(name, p) for name, info in infos.items() for p in info.partitions], timeout=seconds
    )
