"""Look whether a checkpoint connector that was resumed writes checkpoints again.

MirrorMaker 2 writes a checkpoint only where a group's translated position has moved: on a flow whose groups stand still
it writes none, however well it works. So silence proves nothing, and no change is taken back for it. Where it wrote
checkpoints until the flow was stopped, a new one is waited for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kafka_dr.actions.flow_change.changed_flow import changed_flow
from kafka_dr.actions.readiness.signs import checkpoint_at
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import DeadlinePassed
from kafka_dr.procedure.entries import ChangedFlowToResume
from kafka_dr.procedure.progress import NotYet
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Step

#: MirrorMaker 2's default of emit.checkpoints.interval.seconds; how much longer, in seconds, tasks take to start.
_EMIT_SECONDS, _SPARE_SECONDS = 60.0, 15.0
#: A newest checkpoint that is older than so many intervals does not show that groups move.
_MOST_INTERVALS = 3


class CheckpointsSeen(NamedTuple):
    """Number of checkpoints since the connector was resumed, None if it does not write any; and a sentence on them."""

    number: int | None
    sentence: str


def checkpoints_before(procedure: Run) -> tuple[int | None, float | None]:
    """Return the log end of the checkpoints topic, and when its newest record was written, in seconds since 1970."""
    end = _checkpoints_end(procedure)
    return end, None if end is None else checkpoint_at(procedure)


def new_checkpoints(procedure: Run, step: str, resumed: ChangedFlowToResume) -> CheckpointsSeen:
    """Return what the checkpoint connector has written since it was resumed; wait for it if groups moved before."""
    worker, seconds = changed_flow(procedure), procedure.request.deadlines.verify_seconds
    name = worker.checkpoint
    if name not in resumed.resumes_connectors:
        return CheckpointsSeen(None, f"{name} is STOPPED, as before")
    config = worker.config(name)
    if str(config.get("emit.checkpoints.enabled", "true")).lower() == "false":
        return CheckpointsSeen(None, f"{name} is set to write no checkpoints")
    interval = _seconds_of(config)

    def look() -> int:
        number = (_checkpoints_end(procedure) or 0) - (resumed.checkpoints_end or 0)
        if number > 0:
            return number
        raise NotYet("no new checkpoint")

    moved = _had_moved(procedure, resumed, interval)
    try:
        number = procedure.progress.wait(
            step, "A new checkpoint", look, min(seconds, interval + _SPARE_SECONDS) if moved else 0.0
        )
    except DeadlinePassed:
        return CheckpointsSeen(0, _why_none(procedure, name, moved))
    return CheckpointsSeen(number, f"{name} writes checkpoints again")


def _had_moved(procedure: Run, resumed: ChangedFlowToResume, interval: float) -> bool:
    """Whether checkpoints were written until the flow was stopped."""
    stopped = procedure.progress.began(Step.STOP_CHANGED_FLOW)
    return (
        stopped is not None
        and resumed.checkpoint_at is not None
        and resumed.checkpoint_at > stopped - _MOST_INTERVALS * interval
    )


def _why_none(procedure: Run, name: str, moved: bool) -> str:
    if not changed_flow(procedure).status(name).tasks:
        return f"{name} has no task, and needs none unless a group reads topics of the flow"
    if moved:
        return (
            f"{name} wrote checkpoints before, and no new one was seen: if groups go on reading, run"
            " diagnose_replication"
        )
    return f"the tasks of {name} run; it wrote no checkpoint, as it does only when a group's position moves"


def _seconds_of(config: Mapping[str, str]) -> float:
    try:
        return float(config.get("emit.checkpoints.interval.seconds", _EMIT_SECONDS))
    except ValueError:
        return _EMIT_SECONDS


def _checkpoints_end(procedure: Run) -> int | None:
    """Return the log ends of the checkpoints topic, summed up; None if it does not exist."""
    topic, target = procedure.naming.checkpoints_topic(procedure.flow.source), procedure.systems.target
    info = target.topics([topic]).get(topic)
    return None if info is None else sum(target.ends([TopicPartition(topic, n) for n in info.partitions]).values())
