"""What the approved plan moves: topics, partitions, groups, cut-off and boundary."""

from __future__ import annotations

from collections.abc import Sequence

from kafka_dr.actions.scope.flow_scope import scope_now
from kafka_dr.actions.scope.position_frames import frame_partitions
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import Refusal
from kafka_dr.procedure.entries import (
    ConsumersDrained,
    GroupsCommitted,
    MirrorMakerStopped,
    PlannedExclusion,
    ProducersFenced,
)
from kafka_dr.procedure.run import Run


def topics_of(procedure: Run) -> list[str]:
    """The plan's topics, by their names on the source."""
    return [planned.topic for planned in procedure.progress.move().planned.topics]


def topics_with_positions(procedure: Run) -> set[str]:
    """Topics on the source whose positions move: the plan's, and those that are copies of the target's."""
    return {*topics_of(procedure), *procedure.progress.move().planned.copies}


def cut_off_of(procedure: Run) -> dict[TopicPartition, int]:
    """Where the source's logs stood still behind the fence."""
    return frame_partitions(procedure.artifacts.load(procedure.progress.require(ProducersFenced).cut_off), "offset")


def boundary_of(procedure: Run) -> dict[TopicPartition, int]:
    """Where the target's logs ended once MirrorMaker 2 was stopped."""
    return frame_partitions(procedure.artifacts.load(procedure.progress.require(MirrorMakerStopped).boundary), "offset")


def ends_left(procedure: Run) -> dict[TopicPartition, int]:
    """The boundary, and once groups are committed the ends of the topics that clients will write to."""
    committed = procedure.progress.done(GroupsCommitted)
    local = None if committed is None else procedure.artifacts.load(committed.local_ends)
    return boundary_of(procedure) | ({} if local is None else frame_partitions(local, "offset"))


def boundary_moved(procedure: Run) -> list[str]:
    """Partitions of the target, clients' future topics included, whose log ends moved since they were left."""
    left = ends_left(procedure)
    ends = procedure.systems.target.ends(list(left))
    return [f"{tp}: {left[tp]} -> {ends[tp]}" for tp in sorted(left) if ends[tp] != left[tp]]


def groups_of(procedure: Run) -> list[str]:
    """Groups to wait for: the plan's, after the freeze with those born since; no excluded groups."""
    frozen = procedure.progress.done(ConsumersDrained)
    return list(frozen.groups) if frozen else planned_groups(procedure)


def planned_groups(procedure: Run) -> list[str]:
    """The groups that the approver saw: the plan's."""
    return [planned.group for planned in procedure.progress.move().planned.groups]


def excluded_groups(procedure: Run) -> Sequence[PlannedExclusion]:
    """The groups that the plan excludes: fenced, but not waited for."""
    return procedure.progress.move().planned.excluded


def fenced_groups(procedure: Run) -> list[str]:
    """All groups whose reads are fenced on the source: those that are waited for, and the excluded ones."""
    return sorted({*groups_of(procedure), *(one.group for one in excluded_groups(procedure))})


def refuse_changed_topics(procedure: Run) -> None:
    """The plan's topics are what the flow replicates now: same names, ids and partition counts."""
    planned = {one.topic: (one.topic_id, one.partitions) for one in procedure.progress.move().planned.topics}
    infos = procedure.systems.source.topics()
    now = {t: (infos[t].topic_id, len(infos[t].partitions)) for t in scope_now(procedure, infos)}
    changed = sorted(t for t in planned.keys() | now.keys() if planned.get(t) != now.get(t))
    if changed:
        raise Refusal(
            "Topics changed since the forecast",
            f"made, deleted, recreated or grown: {first_few(changed)}",
            "The procedure returns; start a new one, so that the new plan is approved.",
        )


def partitions_of_plan(procedure: Run) -> list[TopicPartition]:
    """All partitions of the plan's topics on the source."""
    topics = procedure.progress.move().planned.topics
    return [TopicPartition(planned.topic, p) for planned in topics for p in range(planned.partitions)]
