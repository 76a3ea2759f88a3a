"""How much a failback deletes and copies, for the second person who decides how the logs come back."""

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
from kafka_dr.hooks.brokers.log_directories import LogDirTool
from kafka_dr.procedure.run import Run


def copy_sizes(procedure: Run, failover: Run, gone: Collection[str] = ()) -> dict[str, Any]:
    """Estimate records to copy back; in mode recreate also bytes and deletions. None where unknown, with the reason.

    Args:
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
    """Offsets the returned cluster lacks, markers and cleaned ones included; None if the flow's worker is silent."""
    infos = procedure.systems.source.topics(scope)
    partitions = [TopicPartition(topic, p) for topic, info in infos.items() for p in info.partitions]
    starts, ends = procedure.systems.source.starts(partitions), procedure.systems.source.ends(partitions)
    if mode_of(procedure) is Mode.RECREATE:
        return sum(ends[tp] - starts[tp] for tp in partitions)
    flow = procedure.flow
    try:
        kept = procedure.mirror_maker(flow).offsets(flow.connectors.source).of(flow.source)
    except (SystemUnavailable, BadInput):
        return None
    shared = (
        {}
        if names_separate_directions(procedure)
        else {tp: end for tp, end in ends_at_opening(failover).items() if scope.get(tp.topic) not in gone}
    )
    done = {
        tp: max(starts[tp], shared.get(tp, 0), -1 if (last := kept.get(tp)) is None else last + 1) for tp in partitions
    }
    return sum(max(0, ends[tp] - done[tp]) for tp in partitions)


def _bytes(procedure: Run, scope: Mapping[str, str]) -> dict[str, Any]:
    jars = procedure.topology.kafka_tools
    if jars is None:
        return _unknown("the topology names no `kafka_tools`")
    try:
        there, here = (
            sum(_tool(procedure, jars, alias).sizes(topics).values())
            for alias, topics in ((procedure.request.target, scope.values()), (procedure.request.source, scope))
        )
    except (SystemUnavailable, BadInput) as error:
        return _unknown(str(error))
    return {"bytes_there": there, "bytes_to_copy": here, "bytes_unknown": None}


def _unknown(why: str) -> dict[str, Any]:
    return {"bytes_there": None, "bytes_to_copy": None, "bytes_unknown": why}


def _tool(procedure: Run, jars: str, alias: str) -> LogDirTool:
    return LogDirTool(jars, procedure.systems.connections.kafka(procedure.topology.cluster(alias).connection), alias)
