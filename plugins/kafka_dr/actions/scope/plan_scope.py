"""Read the plan's topics, partitions and groups, and the cut-off and the boundary from the files of their steps."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

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
    PlannedTopic,
    ProducersFenced,
)
from kafka_dr.procedure.run import Run


def topics_of(procedure: Run) -> list[str]:
    """Return the topics that move, by their names on the source; see `Progress.moved_topics`."""
    return [moved.topic for moved in procedure.progress.moved_topics()]


def topics_with_positions(procedure: Run) -> set[str]:
    """Return the source topics whose positions are translated: the topics that move and copies of target topics."""
    return {*topics_of(procedure), *procedure.progress.move().planned.copies}


def cut_off_of(procedure: Run) -> dict[TopicPartition, int]:
    """Return the cut-off: source partition -> stable log end behind the fence, as fence_producers saved it.

    Of a flow that ran on it is the source offset that stop_mirror_maker saved beside the boundary.
    """
    joint = procedure.progress.done(MirrorMakerStopped)
    if joint is not None and joint.cut_off is not None:
        return frame_partitions(procedure.artifacts.load(joint.cut_off), "offset")
    return frame_partitions(procedure.artifacts.load(procedure.progress.require(ProducersFenced).cut_off), "offset")


def boundary_of(procedure: Run) -> dict[TopicPartition, int]:
    """Return the boundary that stop_mirror_maker saved: target partition -> log end after MirrorMaker 2 stopped."""
    return frame_partitions(procedure.artifacts.load(procedure.progress.require(MirrorMakerStopped).boundary), "offset")


def ends_left(procedure: Run) -> dict[TopicPartition, int]:
    """Return target partition -> log end before any client writes on the target: the boundary, and the local ends.

    Local ends, which commit_groups saves, are the log ends of topics that clients will write to on the target and that
    MirrorMaker 2 does not mirror.
    """
    committed = procedure.progress.done(GroupsCommitted)
    local = None if committed is None else procedure.artifacts.load(committed.local_ends)
    return boundary_of(procedure) | ({} if local is None else frame_partitions(local, "offset"))


def boundary_moved(procedure: Run, grows: Collection[TopicPartition] = ()) -> list[str]:
    """Return, as text, target partitions whose log ends differ from boundary or local ends; [] if none differs.

    Args:
        grows: partitions that may have grown, but not shrunk; so may those to which a flow that runs on writes.
    """
    noted = ends_left(procedure)
    grows = {*grows, *(boundary_of(procedure) if procedure.source_stays_open else ())}
    ends = procedure.systems.target.ends(list(noted))
    moved = [tp for tp in sorted(noted) if ends[tp] < noted[tp] or (ends[tp] > noted[tp] and tp not in grows)]
    return [f"{tp}: {noted[tp]} -> {ends[tp]}" for tp in moved]


def written_by_others(procedure: Run) -> frozenset[TopicPartition]:
    """Return the target partitions to which the target's own clients write all the while: those with local ends.

    Empty unless both flows of the pair always run, and while the target is the fenced one of the two clusters.
    """
    if not procedure.takes_writes_on_both or procedure.source_stays_open:
        return frozenset()
    return frozenset(ends_left(procedure)) - frozenset(boundary_of(procedure))


def groups_of(procedure: Run) -> list[str]:
    """Return the plan's groups and, once drain_consumers is done, also the groups created after the plan.

    Groups that the plan excludes are left out.
    """
    frozen = procedure.progress.done(ConsumersDrained)
    return list(frozen.groups) if frozen else planned_groups(procedure)


def planned_groups(procedure: Run) -> list[str]:
    """Return the plan's groups, which the approver approved."""
    return [planned.group for planned in procedure.progress.move().planned.groups]


def excluded_groups(procedure: Run) -> Sequence[PlannedExclusion]:
    """Return the plan's excluded groups, which are fenced, but for whose members the procedure does not wait."""
    return procedure.progress.move().planned.excluded


def fenced_groups(procedure: Run) -> list[str]:
    """Return all groups whose reads are fenced on the source: the groups that move, and the excluded groups."""
    return sorted({*groups_of(procedure), *(exclusion.group for exclusion in excluded_groups(procedure))})


def topics_to_move(procedure: Run) -> list[PlannedTopic]:
    """Return the topics that the flow replicates now, sorted: the plan's, and those created since the forecast.

    Raises:
        Refusal: a topic of the plan was deleted or recreated, has other partitions, or is not replicated any more.
    """
    planned = {row.topic: row for row in procedure.progress.move().planned.topics}
    infos = procedure.systems.source.topics()
    now = {
        topic: PlannedTopic(topic, remote, len(infos[topic].partitions), infos[topic].topic_id)
        for topic, remote in scope_now(procedure, infos).items()
    }
    changed = sorted(topic for topic, row in planned.items() if now.get(topic) != row)
    if changed:
        raise Refusal(
            "Topics changed since the forecast",
            f"on {procedure.request.source}: {first_few(changed)}. Each topic was deleted or recreated, got partitions,"
            " or the flow does not replicate it any more",
            "If clients are fenced, the procedure returns to the source by itself. Then start a new run, whose plan has"
            " the topics as they are now; a second person must approve the new plan.",
        )
    return [row for _, row in sorted(now.items())]


def partitions_of(topics: Iterable[PlannedTopic]) -> list[TopicPartition]:
    """Return all partitions that these topics have on the source."""
    return [TopicPartition(moved.topic, p) for moved in topics for p in range(moved.partitions)]


def partitions_of_plan(procedure: Run) -> list[TopicPartition]:
    """Return all partitions that the topics that move have on the source."""
    return partitions_of(procedure.progress.moved_topics())
