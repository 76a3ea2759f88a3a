"""Delete the returned cluster's topics in mode recreate, so that the flow back fills them from the beginning.

Topics are deleted only after a second person's approval, with the export verified, both flows stopped, and no record
written to these topics since the export. The journal lists the topics with their ids before the deletion, because a
topic that was already recreated must not be deleted again.
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

#: Settings with a meaning on one cluster only; a recreated topic gets the values of the deleted topic, not those of
#: the new primary's topic.
_OF_THE_CLUSTER = ("min.insync.replicas", "unclean.leader.election.enable")
#: Folder of an export with records that were replicated between the clusters, and that the new primary no longer has.
_OLDER = "older"
_DELETE_SECONDS = 120.0
_DELETED_AT_ONCE = 500


@dataclass(frozen=True)
class TopicBefore:
    """A topic of the returned cluster before its deletion.

    Attributes:
        replicas: replication factor; 0 if unknown.
        settings: min.insync.replicas and unclean.leader.election.enable, if set on the topic itself.
    """

    topic_id: str
    replicas: int
    settings: Mapping[str, str]


class TopicRecreation:
    """Deletes the returned cluster's topics, which prepare_topics then creates again.

    Attributes:
        before: topic of the returned cluster -> its id and settings as first recorded in the journal; {} without such a
            journal entry.
    """

    def __init__(self, procedure: Run, step: str, scope: Mapping[str, str]) -> None:
        self._procedure, self._step, self._scope = procedure, step, scope
        noted = noted_topics(procedure)
        self.before, self._noted = noted or {}, noted is not None

    def delete(self) -> dict[str, Any]:
        """Verify the export and stop both flows, then delete the old topics, and MirrorMaker 2's topics and offsets.

        Only topics that still have the id in the journal are deleted.

        Returns:
            Fields for the journal: number of verified files, connector -> state, number of deleted topics, and names of
            MirrorMaker 2's deleted internal topics.

        Raises:
            Contradiction: a file of the export is missing, or its SHA-256 is not that of the journal.
            Refusal: records were written to the topics since the export; no topic was deleted by this call.
        """
        flows = [self._procedure.reversed.flow, self._procedure.flow]
        verified = verify_export(self._procedure)
        stopped = stop_flows(self._procedure, self._step, flows)
        old = self._topics_to_delete()
        self._refuse_written(old)
        if not self._noted:
            self.before, self._noted = self._note(old), True
        stale = stale_places(self._procedure)
        for batch in in_batches(old, _DELETED_AT_ONCE):
            self._procedure.authority.hold()
            # A superseded process must not delete a topic that a newer process has created under the same name.
            ids = {name: self.before[name].topic_id for name in batch}
            self._procedure.systems.target.delete_topics(self._with_noted_id(batch), _DELETE_SECONDS, ids)
        for cluster, names in stale:
            self._procedure.authority.hold()
            # A drill deletes a topic by its id alone.
            ids = {name: info.topic_id for name, info in cluster.topics(names).items()}
            cluster.delete_topics(names, _DELETE_SECONDS, ids)
        self._clear_offsets()
        return {
            "export_verified": verified,
            "stopped": stopped,
            "deleted": len(self.before),
            "internal_topics_deleted": sorted(name for _, names in stale for name in names),
        }

    def refuse_filled(self) -> None:
        """Refuse if a topic to recreate still has its old id, or has records before the flow back runs."""
        refuse_lacking(self._procedure, self._scope.values())
        infos = self._procedure.systems.target.topics(self.before)
        same = [name for name, info in infos.items() if info.topic_id == self.before[name].topic_id]
        ends = self._procedure.systems.target.ends(partitions_of(self._procedure, self.before))
        filled = [str(tp) for tp, end in ends.items() if end]
        if same or filled:
            raise ReadBackFailed(
                "Topics were not recreated, or already hold records although the flow back has not started",
                "; ".join(
                    f"{fault}: {first_few(names)}"
                    for fault, names in (("not recreated", same), ("with records", filled))
                    if names
                ),
                f"Topics that were not recreated: find out from the controller's log on"
                f" {self._procedure.request.target} why they were not deleted. Topics with records: find out which"
                " client wrote to these topics, and stop this client. Then start a new run.",
            )

    def _topics_to_delete(self) -> list[str]:
        """Return the topics of the returned cluster that exist and were not recreated yet."""
        names = self._scope.values()
        return self._with_noted_id(names) if self._noted else sorted(self._procedure.systems.target.topics(names))

    def _with_noted_id(self, names: Iterable[str]) -> list[str]:
        """Return the topics that still have the id recorded before the deletion, sorted."""
        infos = self._procedure.systems.target.topics(names)
        return sorted(
            name for name, info in infos.items() if name in self.before and info.topic_id == self.before[name].topic_id
        )

    def _refuse_written(self, old: list[str]) -> None:
        findings = self._procedure.progress.require(StrandedRecordsFound)
        ends = frame_partitions(self._procedure.artifacts.load(findings.returned_ends), "offset")
        partitions = partitions_of(self._procedure, set(old) - self._recreated_earlier(old))
        if exported_by(self._procedure) != self._procedure.id:
            # An earlier run wrote the export: partitions without a recorded log end were created by that run, or by the
            # flow back that the earlier run started.
            counts = {
                self._scope[topic]: len(info.partitions)
                for topic, info in self._procedure.systems.source.topics(self._scope).items()
            }
            partitions = [tp for tp in partitions if tp in ends or tp.partition >= counts.get(tp.topic, 0)]
        written = written_since(self._procedure, {tp: ends.get(tp, 0) for tp in partitions})
        if written:
            raise Refusal(
                "Records arrived on the returned cluster after find_stranded_records",
                f"on {self._procedure.request.target}: {first_few(written, separator='; ')}",
                "This try of prepare_topics deleted no topic; both flows are stopped. Find out which client wrote these"
                " records, and stop this client; ACLs do not refuse a super user. Then start a new run.",
            )

    def _recreated_earlier(self, old: list[str]) -> set[str]:
        """Return the topics in `old` that an earlier run recreated, and that so have only copied records.

        The earlier run is the run that wrote the export; empty if this run wrote the export.
        """
        first = exported_by(self._procedure)
        if first == self._procedure.id:
            return set()
        noted = noted_topics(self._procedure.require_other(first)) or {}
        infos = self._procedure.systems.target.topics(old)
        return {name for name, info in infos.items() if name in noted and noted[name].topic_id != info.topic_id}

    def _note(self, old: list[str]) -> dict[str, TopicBefore]:
        """Record the topics to delete in the journal, with ids and settings; return topic name -> id and settings."""
        infos, configs = self._procedure.systems.target.topics(old), self._procedure.systems.target.configs(old)
        before = {
            name: TopicBefore(
                infos[name].topic_id, replicas_of(infos[name]), settings_of_the_cluster(configs.get(name, {}))
            )
            for name in old
        }
        rows = [
            (name, topic.topic_id, topic.replicas, json.dumps(topic.settings, sort_keys=True))
            for name, topic in before.items()
        ]
        frame = pd.DataFrame(rows, columns=["topic", "topic_id", "replicas", "settings"]).astype(
            {"topic": str, "topic_id": str, "replicas": "int32", "settings": str}
        )
        self._procedure.authority.hold()
        intent = TopicsToDelete(deletes_topics=self._procedure.artifacts.save("deleted_topics", frame))
        record_fact(self._procedure.authority, self._step, intent)
        return before

    def _clear_offsets(self) -> None:
        """Set the flow back's offsets in Connect to null, so that all records of the topics are mirrored again.

        The offsets are cleared after the deletion, because a topic that was not deleted would get its records twice.
        """
        flow = self._procedure.flow
        worker = self._procedure.systems.flow_connectors(flow)
        in_connect = worker.offsets().of(flow.source)
        cleared = {tp: None for tp, offset in in_connect.items() if tp.topic in self._scope and offset is not None}
        if cleared:
            worker.change_offsets(cleared, self._procedure.authority.hold)


def noted_topics(procedure: Run) -> dict[str, TopicBefore] | None:
    """Return topic of the returned cluster -> its id and settings, by a procedure's first intent to delete topics.

    None without such an intent.
    """
    noted = procedure.progress.facts(TopicsToDelete)
    if not noted:
        return None
    rows = procedure.artifacts.load(noted[0].deletes_topics).to_dict("records")
    return {
        row["topic"]: TopicBefore(row["topic_id"], int(row["replicas"]), json.loads(row["settings"])) for row in rows
    }


def settings_before_deletion(procedure: Run) -> dict[str, TopicBefore]:
    """Return topic -> its id and settings, of topics of the returned cluster that failback runs intended to delete.

    Only runs since the failover count. If several runs intended to delete a topic, the oldest run's journal entry
    counts.
    """
    oldest: dict[str, TopicBefore] = {}
    for _, writer, _ in PairJournal(procedure).same_way(TopicsToDelete, Step.PREPARE_TOPICS):
        oldest = (noted_topics(writer) or {}) | oldest
    return oldest


def verify_export(procedure: Run) -> int:
    """Verify every file of the export, of stranded and of older records; return the number of record files.

    Raises:
        Contradiction: a file is missing, or its SHA-256 is not that of the journal.
    """
    files = [*exported_partitions(procedure), *exported_older(procedure)]
    for exported in files:
        exported.verify(procedure.artifacts.files)
    return len(files)


def exported_older(procedure: Run) -> list[ExportedPartition]:
    """Return the export's "older" records, by partition: replicated records that the new primary no longer has."""
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
    """Return (cluster, topic names) of MirrorMaker 2's topics with offset syncs and checkpoints of deleted logs.

    If the two flows write to topics of different names, the topics of the flow from the returned cluster remain valid
    and are left out.
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
    """Return a topic's replication factor: the smallest number of replicas of a partition; 0 if unknown."""
    return min(map(len, info.replicas.values()), default=0)


def settings_of_the_cluster(configs: Any) -> dict[str, str]:
    """Return min.insync.replicas and unclean.leader.election.enable, as far as these are set on the topic itself."""
    own: Collection[str] = getattr(configs, "overrides", ())
    return {key: configs[key] for key in _OF_THE_CLUSTER if key in own}


def made_by(procedure: Run, step: str) -> set[str]:
    """Return topics of the returned cluster that any try of `step` in this procedure intended to create."""
    return {name for intent in procedure.progress.facts(TopicsToCreate, step) for name in intent.creates_topics}


def ids_frame(procedure: Run, names: Iterable[str]) -> pd.DataFrame:
    """Return the current ids of these topics on the returned cluster, one row per topic, sorted: topic, topic_id."""
    ids = {name: info.topic_id for name, info in procedure.systems.target.topics(names).items()}
    return pd.DataFrame(sorted(ids.items()), columns=["topic", "topic_id"]).astype(str)
