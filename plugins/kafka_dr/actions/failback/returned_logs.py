"""Read the returned cluster's logs: log bounds, copies on the new primary, and offsets proven to be replicated."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from kafka_dr.actions.failback.resync_scope import partitions_of, topics_back
from kafka_dr.actions.failback.stranded_decision import mode_of
from kafka_dr.actions.history.moves import PairJournal
from kafka_dr.actions.history.seeds import first_noted
from kafka_dr.actions.scope.flow_scope import mirrored_of, names_separate_directions, remote_partitions
from kafka_dr.actions.scope.plan_scope import boundary_of, cut_off_of
from kafka_dr.actions.scope.position_frames import frame_partitions, partitions_frame
from kafka_dr.concurrently import run_concurrently
from kafka_dr.domain.failback.stranded import Mode
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.procedure.entries import EndsNoted, ProducersFenced
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Entry, Step

COUNTS = ("records", "bytes", "aborted", "undecided", "lacking", "older", "older_bytes")
_FILES = ["file", "sha256", "uncommitted_sha256", "older_file", "older_sha256"]


def deleted_copies(procedure: Run) -> list[TopicPartition]:
    """Return the returned cluster's partitions that copy topics of the new primary and that the run will delete.

    [] unless the mode is recreate and the two flows write to topics of different names.
    """
    if mode_of(procedure) is not Mode.RECREATE or not names_separate_directions(procedure):
        return []
    return partitions_of(procedure, topics_back(procedure).values())


@dataclass(frozen=True)
class ReturnedClusterLogs:
    """The returned cluster's current logs. Keys are its partitions, unless stated otherwise.

    Attributes:
        starts, ends: log start and log end.
        stable: last stable offset.
        remote: partition -> its partition on the new primary (its copy).
        resumes: log end before the flow back wrote to the partition.
        proven: the failover's cut-off, below which all records were replicated; {} after an unplanned failover.
        boundary: partition of the new primary -> its log end before clients wrote to it after the failover; the
            failover's boundary.
        gone: partition that the returned cluster no longer has -> number of offsets in its copy on the new primary.
        copied_back: partitions that copy topics of the new primary, and that will be deleted. Their records are
            never stranded, and are searched only for records that the new primary no longer has.
    """

    starts: dict[TopicPartition, int]
    ends: dict[TopicPartition, int]
    stable: dict[TopicPartition, int]
    remote: dict[TopicPartition, TopicPartition]
    resumes: dict[TopicPartition, int]
    proven: dict[TopicPartition, int]
    boundary: dict[TopicPartition, int]
    gone: dict[TopicPartition, int]
    copied_back: frozenset[TopicPartition] = frozenset()

    @classmethod
    def of(cls, procedure: Run, failover: Run) -> ReturnedClusterLogs:
        """Return the logs' state: log bounds read from the returned cluster, other offsets from the journal."""
        reversed_run = procedure.reversed
        infos = reversed_run.systems.source.topics()
        copied = deleted_copies(procedure)
        partitions = [
            *(
                TopicPartition(topic, p)
                for topic in sorted(mirrored_of(reversed_run, infos))
                for p in sorted(infos[topic].partitions)
            ),
            *copied,
        ]
        with run_concurrently() as start:
            starts, stable = (
                start(reversed_run.systems.source.starts, partitions),
                start(reversed_run.systems.source.ends, partitions, "read_committed"),
            )
            ends = reversed_run.systems.source.ends(partitions)
        boundary, remote = boundary_of(failover), remote_partitions(reversed_run, partitions)
        noted = resumed_at(procedure, failover, remote)
        return cls(
            starts=starts.result(),
            ends=ends,
            stable=stable.result(),
            remote=remote,
            # A log that lost its tail ends below its recorded log end.
            resumes={tp: min(end, noted.get(tp, end)) for tp, end in ends.items()},
            proven={} if failover.progress.done(ProducersFenced) is None else cut_off_of(failover),
            boundary=boundary,
            gone=gone_from(procedure, failover, remote, boundary),
            copied_back=frozenset(copied),
        )

    @property
    def nothing_beyond(self) -> bool:
        """Whether `copied_back` is empty and, before the flow back wrote, every log ended at the failover's cut-off."""
        return not self.copied_back and self.resumes == {tp: self.proven.get(tp, 0) for tp in self.resumes}

    def untouched(self) -> pd.DataFrame:
        """Return the search's result if `nothing_beyond` is true: one row per partition, without stranded records."""
        frame = partitions_frame(self.resumes, "resumes")
        columns = {
            "frontier": frame["resumes"],
            "from_offset": frame["resumes"],
            **dict.fromkeys(COUNTS, 0),
            "first_at": None,
            "last_at": None,
            "exact": True,
            "evidence": "the log ends at the cut-off of the failover",
            **dict.fromkeys(_FILES),
        }
        return frame.assign(**columns)


def resumed_at(
    procedure: Run, failover: Run, remote: dict[TopicPartition, TopicPartition]
) -> dict[TopicPartition, int]:
    """Return partition of the returned cluster -> its log end just before the flow back first ran, by the journal.

    A partition without a log end in the journal was created by the flow back: its value is 0. {} if the flow back has
    not run. {} also under default naming, where the flow back writes to topics that the failover's flow does not read.

    Args:
        failover: the procedure that moved clients away from the returned cluster.
        remote: partition of the returned cluster -> its partition on the new primary.
    """
    if names_separate_directions(procedure):
        return {}
    opened = failover.journal.entries(failover.id, Step.OPEN_TARGET, Entry.INTENT)[0].sequence
    journal = PairJournal(procedure)
    notes = [
        (entry.sequence, frame_partitions(writer.artifacts.load(note.ends_before), "offset"), note.all_noted)
        for step in EndsNoted.steps
        for entry, writer, note in journal.facts(EndsNoted, step, opened)
    ]
    noted, whole = first_noted(notes)
    infos = procedure.systems.source.topics({copy.topic for copy in remote.values()}) if whole else {}
    created = [
        tp for tp, copy in remote.items() if copy.topic in infos and copy.partition in infos[copy.topic].partitions
    ]
    return dict.fromkeys(created, 0) | {tp: end for tp, end in noted.items() if tp in remote}


def gone_from(
    procedure: Run,
    failover: Run,
    remote: dict[TopicPartition, TopicPartition],
    boundary: dict[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Return partition of the failover's topics that the returned cluster lacks -> number of offsets in its copy.

    Args:
        remote: partition of the returned cluster -> its copy on the new primary.
        boundary: partition of the new primary -> its log end before clients wrote to it.
    """
    planned = {
        TopicPartition(moved.remote, p): TopicPartition(moved.topic, p)
        for moved in failover.progress.moved_topics()
        for p in range(moved.partitions)
    }
    missing = [copy for copy, original in planned.items() if copy in boundary and original not in remote]
    infos = procedure.systems.source.topics({copy.topic for copy in missing})
    existing = [copy for copy in missing if copy.topic in infos and copy.partition in infos[copy.topic].partitions]
    starts = procedure.systems.source.starts(existing) if existing else {}
    return {planned[copy]: max(0, boundary[copy] - starts[copy]) for copy in existing}
