"""Estimate how much a failback deletes and copies, for the approver of the decision on stranded records."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from kafka_dr.actions.failback.resync_scope import topics_back
from kafka_dr.actions.failback.stranded_decision import mode_of
from kafka_dr.actions.replication.reverse import ends_at_opening
from kafka_dr.actions.scope.flow_scope import names_separate_directions
from kafka_dr.domain.failback.stranded import Mode
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import BadInput, SystemUnavailable
from kafka_dr.procedure.run import Run


def copy_sizes(procedure: Run, failover: Run, gone: Collection[str] = ()) -> dict[str, Any]:
    """Return how much the failback has to copy and to delete, by field name; an unknown number is None.

    `records_to_copy` is the number of offsets to copy from the new primary. Mode recreate has three more fields:
    `bytes_there`, the bytes to delete on the returned cluster; `bytes_to_copy`, the bytes to copy from the new primary;
    and `bytes_unknown`, the reason why bytes are unknown, else None.

    Args:
        failover: procedure that moved clients from the returned cluster to the new primary.
        gone: topics of the returned cluster whose old log an earlier run has deleted.
    """
    try:
        scope = topics_back(procedure)
    except (SystemUnavailable, BadInput) as error:
        return {"records_to_copy": None, **(_unknown(str(error)) if mode_of(procedure) is Mode.RECREATE else {})}
    return {
        "records_to_copy": records_to_copy(procedure, failover, scope, gone),
        **(_bytes(procedure, scope) if mode_of(procedure) is Mode.RECREATE else {}),
    }


def records_to_copy(procedure: Run, failover: Run, scope: Mapping[str, str], gone: Collection[str]) -> int | None:
    """Return how many offsets the flow back has to copy from the new primary; markers and gaps are counted, too.

    In mode recreate these are all offsets of the logs. In mode append these are the offsets above the offsets that
    Connect stores; None if Connect's offsets cannot be read.

    Args:
        failover: procedure that moved clients from the returned cluster to the new primary.
        scope: topic of the new primary -> its name on the returned cluster.
        gone: topics of the returned cluster whose old log an earlier run has deleted.
    """
    infos = procedure.systems.source.topics(scope)
    partitions = [TopicPartition(topic, p) for topic, info in infos.items() for p in info.partitions]
    starts, ends = procedure.systems.source.starts(partitions), procedure.systems.source.ends(partitions)
    if mode_of(procedure) is Mode.RECREATE:
        return sum(ends[tp] - starts[tp] for tp in partitions)
    flow = procedure.flow
    try:
        in_connect = procedure.mirror_maker(flow).offsets().of(flow.source)
    except (SystemUnavailable, BadInput):
        return None
    shared = (
        {}
        if names_separate_directions(procedure)
        else {tp: end for tp, end in ends_at_opening(failover).items() if scope.get(tp.topic) not in gone}
    )
    copied_to = {
        tp: max(starts[tp], shared.get(tp, 0), -1 if (last := in_connect.get(tp)) is None else last + 1)
        for tp in partitions
    }
    return sum(max(0, ends[tp] - copied_to[tp]) for tp in partitions)


def _bytes(procedure: Run, scope: Mapping[str, str]) -> dict[str, Any]:
    try:
        deleted, copied = (
            sum(procedure.systems.log_directories(cluster).sizes(topics).values())
            for cluster, topics in ((procedure.request.target, scope.values()), (procedure.request.source, scope))
        )
    except (SystemUnavailable, BadInput) as error:
        return _unknown(str(error))
    return {"bytes_there": deleted, "bytes_to_copy": copied, "bytes_unknown": None}


def _unknown(reason: str) -> dict[str, Any]:
    return {"bytes_there": None, "bytes_to_copy": None, "bytes_unknown": reason}
