"""Find acknowledged records that are neither on the clients' present cluster nor in an export nor in quarantine.

A replay is a stranded record that the product wrote again on the cluster that clients use. A header of the replay names
its origin: `cluster/topic/partition/offset`, where a client wrote the stranded record. A quarantine topic,
`TOPIC.stranded`, gets stranded records with the decision `quarantine`. A period is the time between two client moves
(failovers or failbacks).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from lab.checker.records import Held, missing_records
from lab.workload.ground_truth import TruthRecord


class Owed(NamedTuple):
    """One acknowledged record, which must not be lost.

    Args:
        period: number of the period in which the record was written.
        cluster: alias of the cluster that acknowledged the record.
        record: the record as its producer logged it.
        in_place: the record's offset is still valid on that cluster, because the topic was not recreated since.
    """

    period: int
    cluster: str
    record: TruthRecord
    in_place: bool


def origin_of(cluster: str, place: tuple[str, int], offset: int) -> str:
    """Return the origin of a record, `cluster/topic/partition/offset`, as it stands in the header of a replay.

    Args:
        cluster: alias of the cluster to which a client wrote the record.
        place: topic and partition on that cluster.
        offset: the record's offset on that cluster.
    """
    return f"{cluster}/{place[0]}/{place[1]}/{offset}"


def unaccounted_records(
    owed: Sequence[Owed],
    place: tuple[str, int],
    here: str,
    records: Sequence[Held],
    exported: set[int],
    elsewhere: Iterable[int],
) -> list[Owed]:
    """Return the acknowledged records that are neither in the logs of cluster `here` nor in an export or quarantine.

    A record is accounted for if `here` still has it at its own offset, if it is exported, or if it has a replay. The
    other records are compared by content: each remaining copy in the logs, in quarantine or in the export accounts for
    one record of equal content.

    Args:
        owed: acknowledged records in write order.
        place: the application's topic and partition.
        here: alias of the cluster that clients use now.
        records: the records of this topic and partition in all logs of that cluster (local and mirrored topic).
        exported: indexes in `owed` of exported records.
        elsewhere: digests of contents in quarantine, and of exported contents that match no client's record.
    """
    copies = Counter(copy.digest for copy in records if copy.origin is None)
    in_log = {(copy.offset, copy.digest) for copy in records if copy.origin is None}
    replays = {(copy.origin, copy.original) for copy in records if copy.origin is not None}
    unmatched = []
    for index, due in enumerate(owed):
        record = due.record
        if (
            due.cluster == here
            and due.in_place
            and (record.offset, record.digest) in in_log
            and copies[record.digest] > 0
        ):
            copies[record.digest] -= 1
        elif index not in exported and (origin_of(due.cluster, place, record.offset), record.digest) not in replays:
            unmatched.append(due)
    missing = set(map(id, missing_records([due.record for due in unmatched], [*copies.elements(), *elsewhere])))
    return [due for due in unmatched if id(due.record) in missing]


def stale_keys(owed: Sequence[Owed], log: Sequence[Held], exported: set[int]) -> list[Owed]:
    """Return the acknowledged records that should be the log's latest record of their key, but are not.

    The log's latest record of a key must be the key's latest acknowledged record that no export lists, or a later one
    that an export lists. If such a record is a tombstone, the log may also have no record of the key. Otherwise the
    key's latest acknowledged record that no export lists is returned.

    Args:
        owed: acknowledged records of a compacted topic, in write order.
        log: one log's records, in offset order.
        exported: indexes in `owed` of exported records.
    """
    latest = {record.key: record for record in log}
    by_key: dict[int, list[int]] = {}
    for index, due in enumerate(owed):
        by_key.setdefault(due.record.key, []).append(index)
    return [
        owed[stale_index]
        for key, indexes in by_key.items()
        if (stale_index := _find_stale(owed, indexes, latest.get(key), exported)) is not None
    ]


def _find_stale(owed: Sequence[Owed], indexes: Sequence[int], latest: Held | None, exported: set[int]) -> int | None:
    for index in reversed(indexes):
        record = owed[index].record
        if (latest is None and record.tombstone) or (
            latest is not None and record.digest in (latest.digest, latest.original)
        ):
            return None
        if index not in exported:
            return index
    return None


def twice_replayed(log: Iterable[Held]) -> dict[str, int]:
    """Return the origins that have more than one replay in a log, each with the number of its replays."""
    return {
        origin: count
        for origin, count in Counter(record.origin for record in log if record.origin is not None).items()
        if count > 1
    }


def replayed_wrongly(log: Iterable[Held], written: Mapping[str, int]) -> list[Held]:
    """Return a log's replays whose content differs from that of the record at their origin.

    Args:
        log: the log's records.
        written: content digests of the records that clients wrote, by origin.
    """
    return [record for record in log if record.origin is not None and written.get(record.origin) != record.original]
