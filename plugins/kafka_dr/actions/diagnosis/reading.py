"""Read the situation of a flow, part by part: what does not answer takes no other part with it.

Invariants
1. Nothing is changed: no lease, no record, no ACL entry, no connector.
2. What cannot be read is stated with its reason; it never counts as good.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kafka_dr.actions.diagnosis.flow_parts import read_connectors, read_workers, with_needed_tasks
from kafka_dr.actions.diagnosis.foreign_records import foreign_records
from kafka_dr.actions.diagnosis.internal_topics import internal_topic_facts
from kafka_dr.actions.diagnosis.logins import ROLES, alias_of, principals_of, try_own_logins
from kafka_dr.actions.diagnosis.positions import group_places, sync_spans
from kafka_dr.actions.diagnosis.records import MirrorMakerRights, lagging_partitions, topic_facts, topics_in_circle
from kafka_dr.actions.readiness.lag import measure_lag
from kafka_dr.actions.readiness.observe import observed_at_rest
from kafka_dr.domain.diagnosis.clusters import CLUSTER_TREE, ClusterFacts, ClusterReach
from kafka_dr.domain.diagnosis.connectors import CONNECTOR_TREE, ConnectorFacts
from kafka_dr.domain.diagnosis.diagnosis import TREES, Situation
from kafka_dr.domain.diagnosis.groups import GROUP_TREE, GroupPlace
from kafka_dr.domain.diagnosis.internal_topics import INTERNAL_TOPIC_TREE
from kafka_dr.domain.diagnosis.partitions import FLOW_STANDS, PARTITION_TREE, TASK_STANDS, LaggingPartition
from kafka_dr.domain.diagnosis.settings import (
    CHECKPOINT_TREE,
    LOOP_TREE,
    NAMING_TREE,
    OFFSET_SYNC_TREE,
    FlowSettings,
)
from kafka_dr.domain.diagnosis.topics import TOPIC_TREE
from kafka_dr.domain.diagnosis.tree import Weight, find_ends, walk_tree
from kafka_dr.domain.diagnosis.workers import WORKER_TREE
from kafka_dr.domain.mirror_maker.naming import Naming
from kafka_dr.domain.plain_text import first_few
from kafka_dr.domain.readiness.observation import Observation
from kafka_dr.domain.readiness.readiness import naming_agrees
from kafka_dr.errors import SwitchbackError
from kafka_dr.hooks.connect.flow_connectors import FlowConnectors
from kafka_dr.procedure.entries import DiagnosisMade, facts_of
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Entry, Step

#: Trees that ask about records and positions: both clusters and every worker must answer.
_OF_RECORDS = tuple(tree.id for tree in TREES if tree not in (CLUSTER_TREE, WORKER_TREE, CONNECTOR_TREE))


class SituationReader:
    """Collects facts for the trees, and what could not be read."""

    def __init__(self, procedure: Run) -> None:
        self._procedure = procedure
        self._facts: dict[str, Sequence[Any]] = {}
        self._unread: dict[str, str] = {}
        self._failures: list[str] = []

    def read(self) -> Situation:
        """Return what was read of the run's flow."""
        procedure = self._procedure
        logins = try_own_logins(procedure)
        self._facts[CLUSTER_TREE.id] = _cluster_facts(procedure, logins, {})
        connectors = procedure.mirror_maker(procedure.flow)
        workers = read_workers(procedure, connectors, logins["target"].cluster_id)
        self._facts[WORKER_TREE.id] = workers
        if any(worker.failure for worker in workers):
            self._leave_out((CONNECTOR_TREE.id, *_OF_RECORDS), "a Connect worker does not answer")
        else:
            self._read_flow(connectors, logins)
        return Situation(self._facts, self._unread, self._failures)

    def _read_flow(
        self,
        connectors: FlowConnectors,
        logins: Mapping[str, ClusterReach],
    ) -> None:
        facts = self._try((CONNECTOR_TREE.id,), lambda: read_connectors(self._procedure, connectors, logins))
        if facts is None:
            return self._leave_out(_OF_RECORDS, "the connectors could not be read")
        self._facts[CONNECTOR_TREE.id] = facts
        if why := self._why_not_records(facts):
            return self._leave_out(_OF_RECORDS, why)
        o = self._try(_OF_RECORDS, lambda: observed_at_rest(self._procedure, {}))
        if o is not None:
            self._facts[CLUSTER_TREE.id] = _cluster_facts(self._procedure, logins, _leaderless(o))
            self._facts[CONNECTOR_TREE.id] = facts = with_needed_tasks(facts, o)
            self._read_records(connectors, facts, o)
        return None

    def _why_not_records(self, connectors: Sequence[ConnectorFacts]) -> str:
        """Return why it makes no sense to read records and positions; "" if it does."""
        found = [finding for tree in (CLUSTER_TREE, WORKER_TREE) for finding in find_ends(tree, self._facts[tree.id])]
        if found:
            return f"first mend {first_few([finding.end.id for finding in found])}"
        missing = [one.name for one in connectors if one.kind == "source" and not one.state]
        return f"the source connector {missing[0]} is missing" if missing else ""

    def _read_records(self, connectors: FlowConnectors, facts: Sequence[ConnectorFacts], o: Observation) -> None:
        procedure, now = self._procedure, self._procedure.journal.now().timestamp()
        settings = flow_settings(procedure, o)
        for tree in (NAMING_TREE, LOOP_TREE, OFFSET_SYNC_TREE, CHECKPOINT_TREE):
            self._facts[tree.id] = [settings]
        rights = {
            role: MirrorMakerRights(view.rules, principals_of(procedure, connectors, role))
            for role, view in zip(ROLES, (o.source, o.target), strict=True)
        }
        tasks = self._try((PARTITION_TREE.id,), connectors.tasks_by_partition) or {}
        topics = self._try(
            (TOPIC_TREE.id, PARTITION_TREE.id),
            lambda: topic_facts(procedure, o, foreign_records(procedure, o), facts, rights, now),
        )
        if topics is not None:
            self._facts[TOPIC_TREE.id] = topics
            partitions = self._try(
                (PARTITION_TREE.id,),
                lambda: lagging_partitions(procedure, o, measure_lag(procedure, o), topics, rights, tasks),
            )
            self._keep(PARTITION_TREE.id, partitions)
        self._read_positions(facts, settings, o, rights, tasks, now)

    def _read_positions(
        self,
        facts: Sequence[ConnectorFacts],
        settings: FlowSettings,
        o: Observation,
        rights: Mapping[str, MirrorMakerRights],
        tasks: Mapping[str, tuple[str, int]],
        now: float,
    ) -> None:
        procedure = self._procedure
        in_order = not any(
            finding.end.weight is Weight.FAULT
            for tree in (OFFSET_SYNC_TREE, CHECKPOINT_TREE)
            for finding in find_ends(tree, [settings])
        )
        works = in_order and all(one.works for one in facts if one.kind == "checkpoint")
        all_stand, standing = self._standing_tasks()
        copies = in_order and not all_stand and any(one.works for one in facts if one.kind == "source")
        copies_heartbeats = copies and not any(
            f"{name} task {task}" in standing
            for partition, (name, task) in tasks.items()
            if procedure.naming.is_heartbeats(partition.rpartition("-")[0])
        )
        places: list[GroupPlace] | None = self._try(
            (GROUP_TREE.id, INTERNAL_TOPIC_TREE.id),
            lambda: group_places(procedure, o, sync_spans(procedure, o), works, rights, self._seen_before(now)),
        )
        if places is not None:
            self._facts[GROUP_TREE.id] = places
            internal = self._try(
                (INTERNAL_TOPIC_TREE.id,),
                lambda: internal_topic_facts(procedure, o, copies, copies_heartbeats, works, places, now),
            )
            self._keep(INTERNAL_TOPIC_TREE.id, internal)

    def _standing_tasks(self) -> tuple[bool, set[str]]:
        """Return whether the whole flow stands, and which tasks do while others copy."""
        lagging: Sequence[LaggingPartition] = self._facts.get(PARTITION_TREE.id, ())
        ends = [(one.task, walk_tree(PARTITION_TREE.root, one)[0]) for one in lagging]
        return any(end is FLOW_STANDS for _, end in ends), {task for task, end in ends if end is TASK_STANDS}

    def _seen_before(self, now: float) -> Callable[[str, str], float]:
        """Return how long ago an end was first found about a group, by all earlier diagnoses since it was not found."""
        request, first = self._procedure.request, dict[tuple[str, str], float]()
        entries = self._procedure.journal.entries(step=Step.DIAGNOSE_REPLICATION, kind=Entry.OUTCOME)
        for entry, made in facts_of(entries, DiagnosisMade):
            if (made.source, made.target) != (request.source, request.target):
                continue
            found = {(finding["id"], name) for finding in made.findings for name in finding["about"]}
            at = entry.at.timestamp()
            first = {key: first.get(key, at) for key in found}
        return lambda end, name: max(0.0, now - first[end, name]) if (end, name) in first else 0.0

    def _keep(self, tree: str, facts: Sequence[Any] | None) -> None:
        if facts is not None:
            self._facts[tree] = facts

    def _leave_out(self, trees: Sequence[str], why: str) -> None:
        self._unread |= {tree: why for tree in trees if tree not in self._facts}

    def _try(self, trees: Sequence[str], read: Callable[[], Any]) -> Any:
        """Return what was read; None, with the reason kept for these trees, if it cannot be read."""
        try:
            return read()
        except SwitchbackError as error:
            self._failures.append(f"{first_few(trees, 3)}: {error}")
            self._leave_out(trees, str(error))
            return None


def _cluster_facts(
    procedure: Run, logins: Mapping[str, ClusterReach], leaderless: Mapping[str, tuple[str, ...]]
) -> list[ClusterFacts]:
    others = dict(zip(ROLES, reversed(ROLES), strict=True))
    return [
        ClusterFacts(
            alias=alias_of(procedure, role),
            role=role,
            login=login,
            other_id=logins[others[role]].cluster_id,
            leaderless=leaderless.get(role, ()),
        )
        for role, login in logins.items()
    ]


def _leaderless(o: Observation) -> dict[str, tuple[str, ...]]:
    views = zip(ROLES, (o.source, o.target), strict=True)
    return {role: tuple(map(str, view.leaderless)) for role, view in views}


def flow_settings(procedure: Run, o: Observation) -> FlowSettings:
    """Return the configurations of the flow's connectors, and what of them and of the topics' names shows a loop."""
    own = {connector.name for connector in o.flow.connectors}
    return FlowSettings(
        flow=f"{o.flow.source}->{o.flow.target}",
        sources={connector.name: connector.config for connector in o.flow.source_connectors},
        checkpoint=o.flow.checkpoint_connector.config if o.flow.checkpoint_connector else {},
        disagreements=[
            f"{blocker.reason}: {blocker.seen}"
            for blocker in naming_agrees(o)
            if any(blocker.reason.startswith(f"{name} ") for name in own)
        ],
        circle=_circle(o),
        repeated=sorted(
            f"{topic} on {view.alias}"
            for view in (o.source, o.target)
            for topic in view.topics
            if _repeats_alias(procedure.naming, topic)
        ),
    )


def _circle(o: Observation) -> str:
    """Return what shows that both directions run on a topic of one name; "" if nothing does."""
    shared = topics_in_circle(o)
    if o.reverse is None or not shared:
        return ""
    forward, back = (
        next(one.name for one in flow.source_connectors if one.runs and one.tasks) for flow in (o.flow, o.reverse)
    )
    return f"{forward} and {back} both copy {first_few(shared, 5)}"


def _repeats_alias(naming: Naming, topic: str) -> bool:
    seen: set[str] = set()
    name: str | None = topic
    while name is not None and (alias := naming.source_alias(name)) is not None:
        if alias in seen:
            return True
        seen.add(alias)
        name = naming.upstream(name)
    return False


def read_situation(procedure: Run) -> Situation:
    """Return what was read of the run's flow; see `SituationReader`."""
    return SituationReader(procedure).read()
