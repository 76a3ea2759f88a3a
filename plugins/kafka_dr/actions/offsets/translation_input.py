"""Build the `bounds` input of translate_offsets: log start and log end per partition on source and target."""

from __future__ import annotations

import pandas as pd

from kafka_dr.actions.fencing.rules import target_rules
from kafka_dr.actions.history.moves import completed_moves
from kafka_dr.actions.offsets.log_bounds import bounds_of
from kafka_dr.actions.scope.flow_scope import names_separate_directions, remote_partitions
from kafka_dr.actions.scope.plan_scope import boundary_of, cut_off_of
from kafka_dr.actions.scope.topic_settings import append_time_in
from kafka_dr.domain.fencing.fence import FenceScope, still_allowed
from kafka_dr.procedure.entries import Receipt
from kafka_dr.procedure.run import Run


def bounds_frame(procedure: Run) -> pd.DataFrame:
    """Return log starts and log ends on source and target, one row per source partition that has a cut-off."""
    cut_off, source, target = cut_off_of(procedure), procedure.systems.source, procedure.systems.target
    remote = remote_partitions(procedure, sorted(cut_off))
    topics, names = {tp.topic for tp in cut_off}, {tp.topic for tp in remote.values()}
    return bounds_of(
        remote,
        source_start=source.starts(list(cut_off)),
        cut_off=cut_off,
        target_start=target.starts(list(remote.values())),
        boundary=boundary_of(procedure),
        source_configs=source.configs(sorted(topics)),
        target_configs=target.configs(sorted(names)),
        drained=cut_off,
        other_writer=open_to_clients(procedure, names),
        restamped=append_time_topics(procedure, topics),
    )


def append_time_topics(procedure: Run, topics: set[str]) -> set[str]:
    """Return the given source topics with LogAppendTime, in which the reverse flow's copies got new timestamps.

    Empty if no procedure has moved clients yet, or if the two flows write to topics of different names.
    """
    if names_separate_directions(procedure) or not completed_moves(procedure):
        return set()
    return append_time_in(procedure.systems.source.configs(sorted(topics)))


def open_to_clients(procedure: Run, topics: set[str]) -> set[str]:
    """Return the given target topics that clients have the right to write to, by the target's ACLs.

    The logs of these topics may have records that were not mirrored.
    """
    rules, exempt = target_rules(procedure), procedure.exempt(procedure.request.target)
    allowed = still_allowed(rules, FenceScope.writes(topics), exempt)
    return {topic for topic in topics if any(entry.endswith(f": {topic}") for entry in allowed)}


def save_target_topics(procedure: Run) -> Receipt:
    """Save the ids of the target topics to which positions are translated; return the receipt of the file.

    By these ids a later translation notices that a topic was deleted or recreated.
    """
    copies = procedure.progress.move().planned.copies
    names = {moved.remote for moved in procedure.progress.moved_topics()} | set(copies.values())
    infos = procedure.systems.target.topics(sorted(names))
    return procedure.artifacts.save_json("target_topics", {name: info.topic_id for name, info in infos.items()})
