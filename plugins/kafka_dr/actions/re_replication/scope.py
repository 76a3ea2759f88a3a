"""Which topics are copied again, and from which source offsets; the refusals before anything is changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from kafka_dr.actions.replication.reverse import refuse_loop
from kafka_dr.actions.scope.flow_scope import scope_now
from kafka_dr.actions.scope.position_frames import frame_partitions
from kafka_dr.actions.scope.topic_settings import append_time_in, compacted_in
from kafka_dr.domain.canonical_json import digest_of
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.mirror_maker.patterns import pattern_list
from kafka_dr.domain.plain_text import first_few
from kafka_dr.domain.re_replication.plan import ReReplicationPlan, re_replication_plan_of
from kafka_dr.domain.re_replication.starts import (
    SourceSpan,
    by_partition,
    first_offsets,
    time_of,
    unknown_places,
)
from kafka_dr.domain.readiness.alike_connectors import isolation_of
from kafka_dr.domain.readiness.connect_checks import hook_blockers
from kafka_dr.errors import Contradiction, NotReady
from kafka_dr.hooks.brokers.descriptions import Settings, TopicInfo
from kafka_dr.procedure.entries import Approval, ReReplicationPlanned
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Step

_NOTHING_CHANGED = "Nothing was changed."


@dataclass
class ChosenTopics:
    """The topics of the flow that the param `topics` chooses, as both clusters have them now.

    Attributes:
        names: source topic -> its name on the target.
    """

    procedure: Run
    names: Mapping[str, str]

    @cached_property
    def source_topics(self) -> dict[str, TopicInfo]:
        """The topics on the source, by name."""
        return self.procedure.systems.source.topics(self.names)

    @cached_property
    def target_topics(self) -> dict[str, TopicInfo]:
        """Those of the target's topics that exist, by name."""
        return self.procedure.systems.target.topics(self.names.values())

    @cached_property
    def partitions(self) -> dict[TopicPartition, TopicPartition]:
        """Source partition -> target partition, sorted."""
        return {
            TopicPartition(topic, p): TopicPartition(self.names[topic], p)
            for topic, info in sorted(self.source_topics.items())
            for p in sorted(info.partitions)
        }

    @cached_property
    def existing(self) -> dict[TopicPartition, TopicPartition]:
        """Source partition -> target partition, of those that the target has."""
        infos = self.target_topics
        return {
            tp: remote
            for tp, remote in self.partitions.items()
            if remote.topic in infos and remote.partition in infos[remote.topic].partitions
        }

    @cached_property
    def target_settings(self) -> dict[str, Settings]:
        """Target topic -> its settings."""
        return self.procedure.systems.target.configs(self.target_topics)

    @cached_property
    def with_timestamps(self) -> Mapping[str, bool]:
        """Source topic -> whether copies have the timestamps of their source records: not with LogAppendTime."""
        restamped = append_time_in(self.target_settings)
        return {topic: remote not in restamped for topic, remote in self.names.items()}

    @cached_property
    def isolation(self) -> str:
        """The isolation level with which MirrorMaker 2 reads the source."""
        return isolation_of(self.procedure.mirror_maker(self.procedure.flow).source_config())

    @cached_property
    def compacted(self) -> list[str]:
        """Source topics that are compacted on either cluster, sorted."""
        here = compacted_in(self.procedure.systems.source.configs(self.names))
        there = compacted_in(self.target_settings)
        return sorted(topic for topic, remote in self.names.items() if topic in here or remote in there)


def chosen_topics(procedure: Run) -> ChosenTopics:
    """Return the topics that the param `topics` chooses; refuse patterns that choose no topic of the flow.

    Raises:
        NotReady: a name or pattern matches no topic that the flow mirrors.
    """
    existing = sorted(procedure.systems.source.topics())
    names = scope_now(procedure, existing)
    items = [item.strip() for item in procedure.request.topics.split(",")]
    without = [item for item in items if not any(pattern_list(item, "topic").matches(topic) for topic in names)]
    if without:
        unmirrored = [
            topic for topic in existing if topic not in names and pattern_list(without[0], "topic").matches(topic)
        ]
        also = (
            f"; {without[0]} matches topics that the flow does not mirror: {first_few(unmirrored)}"
            if unmirrored
            else ""
        )
        raise NotReady(
            "The param topics matches no topic of the flow",
            f"without a match on {procedure.request.source}: {first_few(without)}{also}; the flow mirrors"
            f" {first_few(sorted(names), 20)}",
            f"{_NOTHING_CHANGED} Correct `topics`: names of the source, or patterns for whole names, such as orders.*;"
            " then start a new run.",
        )
    chosen = pattern_list(procedure.request.topics, "topic")
    return ChosenTopics(procedure, {topic: remote for topic, remote in names.items() if chosen.matches(topic)})


def refuse_unable_flow(procedure: Run) -> tuple[str, ...]:
    """Refuse a flow whose offsets cannot be set, or that does not run; return the connectors that run.

    Raises:
        NotReady: the offsets cannot be set, or a source connector is not RUNNING.
        Refusal: the opposite flow runs, too, under identity naming.
    """
    refuse_unseedable(procedure)
    refuse_loop(procedure)
    worker = procedure.mirror_maker(procedure.flow)
    states = {name: worker.status(name) for name in worker.existing()}
    idle = [str(states.get(name, f"{name} does not exist")) for name in worker.sources if not _runs(states.get(name))]
    if idle:
        raise NotReady(
            f"The flow {procedure.request.source}->{procedure.request.target} does not run",
            "; ".join(idle),
            f"{_NOTHING_CHANGED} Find out who stopped these connectors, or why they failed. Resume them in Connect;"
            " when they are RUNNING, start a new run.",
        )
    return tuple(name for name in worker.names if _runs(states.get(name)))


def refuse_unseedable(procedure: Run) -> None:
    """Refuse a flow whose offsets can be set neither over REST nor while its stop hook keeps it stopped.

    Raises:
        NotReady: the Connect worker has no offsets API; or the hook does not start the flow, or its topic is not known.
    """
    flow, connectors = procedure.flow, procedure.mirror_maker(procedure.flow)
    name = f"{flow.source}->{flow.target}"
    if flow.connect is None:
        for blocker in hook_blockers(name, connectors.can_resume(), connectors.offsets_problem()):
            raise _unseedable(f"{blocker.reason}: {blocker.seen}", blocker.next_step)
    elif not connectors.workers[0][0].sets_offsets(connectors.sources[0]):
        raise _unseedable(
            f"the Connect worker of MirrorMaker 2 of {name} has version {connectors.worker().version}; Connect has a"
            " REST API for offsets from version 3.6 on",
            "Run the flow's connectors, under the same names, in a Connect worker of version 3.6 or later. Or name,"
            " instead of `connect`, a `stop_hook` of the flow that deletes its connectors and creates them again, and"
            " its `offset.storage.topic` under `mirror_maker`.",
        )


def _unseedable(seen: str, next_step: str) -> NotReady:
    return NotReady(
        "The offsets of this flow cannot be set", seen, f"{_NOTHING_CHANGED} {next_step} Then start a new run."
    )


def _runs(status: object) -> bool:
    return status is not None and getattr(status, "state", "") == "RUNNING"


def refuse_compacted(chosen: ChosenTopics) -> None:
    """Refuse compacted topics, unless the param `include_compacted` is set."""
    if chosen.compacted and not chosen.procedure.request.choices.get("include_compacted"):
        raise NotReady(
            "Compacted topics are not copied again unless the run says so",
            f"compacted on one of the clusters: {first_few(chosen.compacted)}",
            f"{_NOTHING_CHANGED} A compacted topic lacks records that compaction has removed, and a consumer that reads"
            " the new copies from the beginning no longer sees them. Leave these topics out of `topics`, or start a new"
            " run with include_compacted.",
        )


def first_offsets_of(chosen: ChosenTopics) -> dict[TopicPartition, int]:
    """Return the first source offset to copy, by partition, as the params `from_offset` and `from_time` ask for.

    Raises:
        NotReady: a start lies outside its log, names no chosen partition, or cannot be written to Connect.
    """
    procedure, partitions = chosen.procedure, list(chosen.partitions)
    offsets, times = (procedure.request.choices.get(name) or {} for name in ("from_offset", "from_time"))
    source = procedure.systems.source
    starts, ends = source.starts(partitions), source.ends(partitions)
    wanted_times = by_partition({place: time_of(text) or 0 for place, text in times.items()}, partitions)
    firsts, problems = first_offsets(
        {tp: SourceSpan(starts[tp], ends[tp]) for tp in partitions},
        by_partition(offsets, partitions),
        source.offsets_at(wanted_times) if wanted_times else {},
    )
    problems += [
        f"{place}: no such topic or partition is chosen" for place in unknown_places([*offsets, *times], partitions)
    ]
    if problems:
        raise NotReady(
            "The offsets or times to begin at cannot be used",
            first_few(problems, separator="; "),
            f"{_NOTHING_CHANGED} Correct from_offset and from_time, then start a new run.",
        )
    return firsts


def planned_copies(procedure: Run) -> tuple[ReReplicationPlan, dict[TopicPartition, int]]:
    """Return the plan from the journal, and the first source offset to copy by partition.

    Raises:
        Contradiction: plan or first offsets do not match the digest in the journal.
    """
    planned = procedure.progress.with_plan(procedure.progress.require(ReReplicationPlanned))
    plan = re_replication_plan_of(planned.whole_plan)
    firsts = frame_partitions(procedure.artifacts.load(planned.starts), "first")
    if plan.digest != planned.plan_digest or plan.starts != digest_of_starts(firsts):
        raise Contradiction(
            "The plan of the copies does not match its digest in the journal",
            f"the plan's SHA-256 in the journal is {planned.plan_digest}; the plan in its file, or the file with the"
            " first offsets, gives another",
            "This try changed nothing. Compare the journal and the evidence folder with a backup. Before topics are"
            " deleted, start a new run, which plans again; afterwards restore the file, then clear the red step.",
        )
    return plan, firsts


def digest_of_starts(firsts: Mapping[TopicPartition, int]) -> str:
    """Return the digest of the first source offsets, which the plan states."""
    return digest_of({"starts": [[tp.topic, tp.partition, first] for tp, first in sorted(firsts.items())]})


def planned_topics(procedure: Run) -> ChosenTopics:
    """Return the topics of the plan, as both clusters have them now."""
    plan, _ = planned_copies(procedure)
    return ChosenTopics(procedure, {topic.topic: topic.remote for topic in plan.copied_topics})


def require_approved(procedure: Run) -> Approval:
    """Return the valid approval of the run's plan; raise ApprovalMissing without one."""
    planned = procedure.progress.require(ReReplicationPlanned)
    return procedure.approvals.require(Step.APPROVE_RE_REPLICATION, planned.plan_digest)
