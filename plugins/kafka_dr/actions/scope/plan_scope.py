"""Read the plan's topics, partitions and groups, and the cut-off and the boundary from the files of their steps."""

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
    """Return the plan's topics, by their names on the source."""
    return [planned.topic for planned in procedure.progress.move().planned.topics]


def topics_with_positions(procedure: Run) -> set[str]:
    """Return the source topics whose positions are translated: the plan's topics and copies of target topics."""
    return {*topics_of(procedure), *procedure.progress.move().planned.copies}


def cut_off_of(procedure: Run) -> dict[TopicPartition, int]:
    """Return the cut-off that fence_producers saved: source partition -> stable log end behind the fence."""
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


def boundary_moved(procedure: Run) -> list[str]:
    """Return, as text, target partitions whose log ends differ from boundary or local ends; [] if none differs."""
    noted = ends_left(procedure)
    ends = procedure.systems.target.ends(list(noted))
    return [f"{tp}: {noted[tp]} -> {ends[tp]}" for tp in sorted(noted) if ends[tp] != noted[tp]]


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


def refuse_changed_topics(procedure: Run) -> None:
    """Refuse unless the flow now replicates exactly the plan's topics, with the same ids and numbers of partitions."""
    planned = {row.topic: (row.topic_id, row.partitions) for row in procedure.progress.move().planned.topics}
    infos = procedure.systems.source.topics()
    now = {t: (infos[t].topic_id, len(infos[t].partitions)) for t in scope_now(procedure, infos)}
    changed = sorted(t for t in planned.keys() | now.keys() if planned.get(t) != now.get(t))
    if changed:
        raise Refusal(
            "Topics changed since the forecast",
            f"on {procedure.request.source}: {first_few(changed)}. Each topic was created, deleted or recreated, got"
            " partitions, or the flow replicates it now and did not before, or the reverse",
            "The procedure returns to the source by itself. Then start a new run, whose plan has the topics as they are"
            " now; a second person must approve the new plan.",
        )


def partitions_of_plan(procedure: Run) -> list[TopicPartition]:
    """Return all partitions that the plan's topics have on the source, by the plan."""
    topics = procedure.progress.move().planned.topics
    return [TopicPartition(planned.topic, p) for planned in topics for p in range(planned.partitions)]
