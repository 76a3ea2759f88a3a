"""Wait for stable log ends, the last proof of a fence, because ACLs do not stop the writes of a super user."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from kafka_dr.actions.fencing.observed_producers import describe_writers, list_producers, sum_up_producers
from kafka_dr.actions.fencing.open_transactions import OpenTransactions
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import FenceNotProven, SystemUnavailable
from kafka_dr.hooks.brokers.record import Record, keep_part, record_of
from kafka_dr.procedure.entries import ObservedProducers
from kafka_dr.procedure.progress import NotYet
from kafka_dr.procedure.run import Run


@dataclass(frozen=True)
class StillSource:
    """Source partitions to which nobody writes.

    Attributes:
        ends: by partition, its log end: the cut-off.
        producers: what brokers say about the producers of these partitions.
    """

    ends: dict[TopicPartition, int]
    producers: ObservedProducers


def wait_for_stable_ends(procedure: Run, step: str, partitions: list[TopicPartition]) -> tuple[StillSource, float]:
    """Wait until no log end of these source partitions moves, no producer writes, and no transaction is open.

    Returns:
        The log ends and producers, and the number of seconds since the step began.

    Raises:
        FenceNotProven: records still arrived `fence_seconds` after the fence was begun, or transactions were still open
            after `transaction_seconds`; the error names the newest records, or the transactions.
    """
    ends = StableLogEnds(procedure, step, partitions)
    deadlines = procedure.request.deadlines
    # `look` ends the wait earlier, after one of the two deadlines; the wait's deadline here is the sum of both.
    still = procedure.progress.wait(
        step, "Stable log ends on the source", ends.look, deadlines.fence_seconds + deadlines.transaction_seconds
    )
    # The step's clock, because a deferred step is resumed many times and each time continues the same wait.
    return still, procedure.progress.now() - procedure.progress.clock(step)


class StableLogEnds:
    """Compares log ends and producers of source partitions at the beginning and at the end of `stable_seconds`."""

    def __init__(self, procedure: Run, step: str, partitions: list[TopicPartition]) -> None:
        self._procedure, self._step, self._partitions = procedure, step, partitions
        self._transactions = OpenTransactions(procedure, step)

    def look(self) -> StillSource:
        """Return log ends and producers if neither moved within `stable_seconds` and no transaction is open.

        Raises:
            NotYet: a log end or a producer moved, or a transaction is open, and the deadline is not over.
            FenceNotProven: records arrived, or a transaction is open, and the deadline is over.
        """
        source, deadlines = self._procedure.systems.source, self._procedure.request.deadlines
        before, producers_before = source.ends(self._partitions), list_producers(self._procedure, self._partitions)
        time.sleep(deadlines.stable_seconds)
        after, stable = source.ends(self._partitions), source.ends(self._partitions, isolation="read_committed")
        producers = list_producers(self._procedure, self._partitions)
        moving = {tp: before[tp] for tp in self._partitions if after[tp] != before[tp]}
        written = newest_records(self._procedure, moving)
        if written:
            writes_text = (
                f"records still arrive on {len(written)} partitions of {self._procedure.request.source}:"
                f" {first_few(written, separator='; ')}{describe_writers(producers_before, producers)}"
            )
            raise self._not_yet(
                deadlines.fence_seconds,
                "Writes still get through on the source",
                writes_text,
                "The procedure returns to the source by itself. Find out which client writes these records, and stop"
                " that client; then start a new run. No ACL entry stops a super user.",
            )
        waiting = {tp: stable[tp] for tp in self._partitions if stable[tp] != after[tp]}
        if waiting:
            writes_text = self._transactions.look(waiting, after)
            raise self._not_yet(
                deadlines.transaction_seconds,
                "Transactions stay open on the source",
                f"on {self._procedure.request.source}: {writes_text}",
                _TRANSACTION_REMEDIES,
            )
        if moving:
            raise NotYet(f"{len(moving)} partitions of the source got transaction markers, but no records")
        if writers := describe_writers(producers_before, producers):
            raise NotYet(f"producers wrote to the source{writers}")
        return StillSource(after, sum_up_producers(producers))

    def _not_yet(self, seconds: float, reason: str, observed: str, next_step: str) -> Exception:
        progress = self._procedure.progress
        if progress.now() < progress.clock(self._step) + seconds:
            return NotYet(observed)
        return FenceNotProven(f"{reason}, {seconds:.0f} s after the fence was begun", observed, next_step)


_TRANSACTION_REMEDIES = (
    "The procedure returns to the source by itself. Have the application commit or abort these transactions, or wait"
    " until the broker aborts them at the producer's transaction.timeout.ms; then start a new run. Or start a new run"
    " now: a higher param transaction_seconds leaves transactions more time to end; with the param"
    " abort_open_transactions, it aborts transactions that are still open."
)


def newest_records(procedure: Run, moving: Mapping[TopicPartition, int]) -> list[str]:
    """Return, as text, the newest record of each source partition that has records from its offset in `moving` on.

    [] if no partition has such records. The end marker of a transaction moves a log end, too, but is no record. If the
    source does not answer, the text of each partition has its offset in `moving` and the reason.

    Args:
        moving: source partition -> an earlier log end, which the partition's log has passed.
    """
    if not moving:
        return []
    try:
        reader = procedure.systems.reader(procedure.request.source)
        tails = reader.last_records(sorted(moving), keep_part(lambda message: describe_record(record_of(message))))
    except SystemUnavailable as error:
        return [f"{tp} from offset {offset} on ({error.reason})" for tp, offset in sorted(moving.items())]
    return [
        f"{tp}: {tail.last.part}"
        for tp, tail in sorted(tails.items())
        if tail.last is not None and tail.last.offset >= moving[tp]
    ]


def describe_record(record: Record) -> str:
    """Return text about a record by which its writer can be found: offset, time, the key's hash, and size.

    The text does not contain the key, because a key may be personal data.
    """
    at = (
        "no timestamp"
        if record.timestamp is None
        else datetime.fromtimestamp(record.timestamp / 1000, UTC).isoformat(timespec="milliseconds")
    )
    key = "no key" if record.key is None else f"key with SHA-256 {hashlib.sha256(record.key).hexdigest()[:16]}"
    return f"newest record at offset {record.offset}, {at}, {key}, {record.size} bytes"
