"""Prepare the returned cluster's topics for the flow back: add what is missing, or make all of them anew.

Nothing is deleted unless a second person decided on it, the export of what would be lost was read again, both flows
stand, and no record came since it was made. What is deleted stands in the journal before, each topic with its id, so
that one that was made anew already is never deleted again.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from kafka_dr.actions.failback.resync_scope import partitions_of, refuse_lacking, stop_flows, written_since
from kafka_dr.actions.failback.stranded_export import ExportedPartition, exported_by, exported_partitions
from kafka_dr.actions.history.moves import PairJournal
from kafka_dr.actions.scope.flow_scope import names_separate_directions
from kafka_dr.actions.scope.internal_topics import syncs_place
from kafka_dr.actions.scope.position_frames import frame_partitions
from kafka_dr.config.settings import Flow
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import ReadBackFailed, Refusal
from kafka_dr.hooks.brokers.client import in_batches
from kafka_dr.hooks.brokers.descriptions import TopicInfo
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import StrandedRecordsFound, TopicsToCreate, TopicsToDelete
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Step

#: Settings of the topic as it was on the returned cluster that mean nothing on another one.
_OF_THE_CLUSTER = ("min.insync.replicas", "unclean.leader.election.enable")
#: Folder of an export with what was replicated once.
_OLDER = "older"
_DELETE_SECONDS = 120.0
_DELETED_AT_ONCE = 500


@dataclass(frozen=True)
class TopicBefore:
    """What a topic of the returned cluster was before it was deleted.

    Attributes:
        replicas: copies of each partition; 0 where nobody knows.
        settings: its own settings that only that cluster has.
    """

    topic_id: str
    replicas: int
    settings: Mapping[str, str]


class TopicRecreation:
    """Topics of the returned cluster that are deleted and made anew, by their names there.

    Attributes:
        before: what they were when they were looked at first.
    """

    def __init__(self, procedure: Run, step: str, scope: Mapping[str, str]) -> None:
        self._procedure, self._step, self._scope = procedure, step, scope
        noted = noted_topics(procedure)
        self.before, self._noted = noted or {}, noted is not None

    def delete(self) -> dict[str, Any]:
        """Stop both flows, look again, then delete what still is as it was; and what MirrorMaker 2 remembers of it.

        Raises:
            Contradiction: the export is not what the journal knows.
            Refusal: records came since it was made.
        """
        flows = [self._procedure.reversed.flow, self._procedure.flow]
        verified = verify_export(self._procedure)
        stopped = stop_flows(self._procedure, self._step, flows)
        old = self._old()
        self._refuse_written(old)
        if not self._noted:
            self.before, self._noted = self._note(old), True
        stale = stale_places(self._procedure)
        for some in in_batches(old, _DELETED_AT_ONCE):
            self._procedure.authority.hold()
            # A process that comes late must not delete what a newer one has made by the same name.
            self._procedure.systems.target.delete_topics(self._as_they_were(some), _DELETE_SECONDS)
        for cluster, names in stale:
            self._procedure.authority.hold()
            cluster.delete_topics(names, _DELETE_SECONDS)
        self._forget_offsets()
        return {
            "export_verified": verified,
            "stopped": stopped,
            "deleted": len(self.before),
            "internal_topics_deleted": sorted(name for _, names in stale for name in names),
        }

    def refuse_filled(self) -> None:
        """Require topics made anew to have new ids and no record: the flow back fills them from the beginning."""
        refuse_lacking(self._procedure, self._scope.values())
        infos = self._procedure.systems.target.topics(self.before)
        same = [name for name, info in infos.items() if info.topic_id == self.before[name].topic_id]
        ends = self._procedure.systems.target.ends(partitions_of(self._procedure, self.before))
        filled = [str(tp) for tp, end in ends.items() if end]
        if same or filled:
            raise ReadBackFailed(
                "Topics are not as they were made",
                first_few([*same, *filled]),
                "Find who made or wrote them; then start a new run.",
            )

    def _old(self) -> list[str]:
        """Topics that are there and were not made anew yet."""
        names = self._scope.values()
        return self._as_they_were(names) if self._noted else sorted(self._procedure.systems.target.topics(names))

    def _as_they_were(self, names: Iterable[str]) -> list[str]:
        """Those that have the id which was noted before anything was deleted, sorted."""
        infos = self._procedure.systems.target.topics(names)
        return sorted(
            name for name, info in infos.items() if name in self.before and info.topic_id == self.before[name].topic_id
        )

    def _refuse_written(self, old: list[str]) -> None:
        found = self._procedure.progress.require(StrandedRecordsFound)
        seen = frame_partitions(self._procedure.artifacts.load(found.returned_ends), "offset")
        there = partitions_of(self._procedure, set(old) - self._replaced(old))
        if exported_by(self._procedure) != self._procedure.id:
            # What was not there when an earlier run looked was made by it, or by the flow back that it started.
            counts = {
                self._scope[topic]: len(info.partitions)
                for topic, info in self._procedure.systems.source.topics(self._scope).items()
            }
            there = [tp for tp in there if tp in seen or tp.partition >= counts.get(tp.topic, 0)]
        written = written_since(self._procedure, {tp: seen.get(tp, 0) for tp in there})
        if written:
            raise Refusal(
                "Records came to the returned cluster since they were looked through",
                first_few(written, separator="; "),
                "Nothing was deleted. Find the writer (a super user passes every ACL); then start a new run, which"
                " looks again.",
            )

    def _replaced(self, old: list[str]) -> set[str]:
        """Topics that an earlier run made anew since the search for stranded records: they hold copies only."""
        first = exported_by(self._procedure)
        if first == self._procedure.id:
            return set()
        noted = noted_topics(self._procedure.require_other(first)) or {}
        infos = self._procedure.systems.target.topics(old)
        return {name for name, info in infos.items() if name in noted and noted[name].topic_id != info.topic_id}

    def _note(self, old: list[str]) -> dict[str, TopicBefore]:
        """What they are, in the journal before anything is deleted."""
        infos, configs = self._procedure.systems.target.topics(old), self._procedure.systems.target.configs(old)
        before = {
            name: TopicBefore(
                infos[name].topic_id, replicas_of(infos[name]), settings_of_the_cluster(configs.get(name, {}))
            )
            for name in old
        }
        rows = [
            (name, was.topic_id, was.replicas, json.dumps(was.settings, sort_keys=True)) for name, was in before.items()
        ]
        frame = pd.DataFrame(rows, columns=["topic", "topic_id", "replicas", "settings"]).astype(
            {"topic": str, "topic_id": str, "replicas": "int32", "settings": str}
        )
        self._procedure.authority.hold()
        deleting = TopicsToDelete(deletes_topics=self._procedure.artifacts.save("deleted_topics", frame))
        record_fact(self._procedure.authority, self._step, deleting)
        return before

    def _forget_offsets(self) -> None:
        """Remove the flow back's offsets: it begins anew. Before the logs are gone this would fill them twice."""
        flow = self._procedure.flow
        worker, name = self._procedure.systems.connect_worker(flow), flow.connectors.source
        known = worker.offsets(name).of(flow.source)
        nothing = {tp: None for tp, offset in known.items() if tp.topic in self._scope and offset is not None}
        if nothing:
            self._procedure.authority.hold()
            worker.change_offsets(name, flow.source, nothing)


def noted_topics(procedure: Run) -> dict[str, TopicBefore] | None:
    """What a procedure meant to delete, as it was then, by its first intent in the journal; None before that."""
    noted = procedure.progress.facts(TopicsToDelete)
    if not noted:
        return None
    rows = procedure.artifacts.load(noted[0].deletes_topics).to_dict("records")
    return {
        row["topic"]: TopicBefore(row["topic_id"], int(row["replicas"]), json.loads(row["settings"])) for row in rows
    }


def settings_before_deletion(procedure: Run) -> dict[str, TopicBefore]:
    """Topics noted for deletion by this failback's runs since clients left, each as its oldest note has it."""
    found: dict[str, TopicBefore] = {}
    for _, writer, _ in PairJournal(procedure).same_way(TopicsToDelete, Step.PREPARE_TOPICS):
        found = (noted_topics(writer) or {}) | found
    return found


def verify_export(procedure: Run) -> int:
    """Read every file of the export again, stranded and older records; count the files.

    Raises:
        Contradiction: a file is missing, or is not what the journal knows.
    """
    files = [*exported_partitions(procedure), *exported_older(procedure)]
    for one in files:
        one.verify()
    return len(files)


def exported_older(procedure: Run) -> list[ExportedPartition]:
    """Files of records that were replicated once, and that the new primary has deleted since."""
    export = procedure.progress.require(StrandedRecordsFound).export
    folder = Path(procedure.topology.evidence) / exported_by(procedure) / export.folder / _OLDER
    rows = procedure.artifacts.load(export.older).to_dict("records") if export.older else []
    return [
        ExportedPartition(
            row["topic"],
            int(row["partition"]),
            0,
            folder / row["older_file"],
            row["older_sha256"],
            folder / row["older_file"],
        )
        for row in rows
    ]


def stale_places(procedure: Run) -> list[tuple[Any, list[str]]]:
    """MirrorMaker 2's internal topics (offset syncs, checkpoints) about deleted logs, by cluster.

    Where each direction has topics of its own, those of the flow from the returned cluster go on to be true.
    """
    flow, old = procedure.flow, procedure.reversed.flow
    stale = _internal(procedure, flow) | (set() if names_separate_directions(procedure) else _internal(procedure, old))
    if names_separate_directions(procedure):
        stale -= _internal(procedure, old)
    clusters = {procedure.request.source: procedure.systems.source, procedure.request.target: procedure.systems.target}
    return [(cluster, sorted(topic for where, topic in stale if where == alias)) for alias, cluster in clusters.items()]


def _internal(procedure: Run, flow: Flow) -> set[tuple[str, str]]:
    return {syncs_place(procedure, flow), (flow.target, procedure.naming.checkpoints_topic(flow.source))}


def replicas_of(info: TopicInfo) -> int:
    """Copies that each partition of a topic has, by the one with fewest; 0 where nobody knows."""
    return min(map(len, info.replicas.values()), default=0)


def settings_of_the_cluster(configs: Any) -> dict[str, str]:
    """A topic's own settings that mean something on its cluster only, and are kept when it is made anew there."""
    own: Collection[str] = getattr(configs, "overrides", ())
    return {key: configs[key] for key in _OF_THE_CLUSTER if key in own}


def made_by(procedure: Run, step: str) -> set[str]:
    """Topics of the returned cluster that this procedure made, by its intents, those of killed tries included."""
    return {name for making in procedure.progress.facts(TopicsToCreate, step) for name in making.creates_topics}


def ids_frame(procedure: Run, names: Iterable[str]) -> pd.DataFrame:
    """Ids that topics of the returned cluster have now, sorted by their names."""
    ids = {name: info.topic_id for name, info in procedure.systems.target.topics(names).items()}
    return pd.DataFrame(sorted(ids.items()), columns=["topic", "topic_id"]).astype(str)
