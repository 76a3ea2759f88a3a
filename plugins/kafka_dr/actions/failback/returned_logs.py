"""Where the logs of the returned cluster end, and from where on they are its own."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from kafka_dr.actions.concurrently import run_concurrently
from kafka_dr.actions.failback.resync_scope import partitions_of, topics_back
from kafka_dr.actions.failback.stranded_decision import mode_of
from kafka_dr.actions.history.moves import PairJournal
from kafka_dr.actions.history.seeds import first_noted
from kafka_dr.actions.scope.flow_scope import mirrored_of, names_separate_directions, remote_partitions
from kafka_dr.actions.scope.plan_scope import boundary_of, cut_off_of
from kafka_dr.actions.scope.position_frames import frame_partitions, partitions_frame
from kafka_dr.domain.failback.stranded import Mode
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.procedure.entries import (
    EndsNoted,
    ProducersFenced,
)
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Entry, Step

COUNTS = ("records", "bytes", "aborted", "undecided", "lacking", "older", "older_bytes")
_FILES = ["file", "sha256", "uncommitted_sha256", "older_file", "older_sha256"]


def deleted_copies(procedure: Run) -> list[TopicPartition]:
    """Returned cluster's copies of the new primary's own topics that the run deletes; none under identity naming."""
    if mode_of(procedure) is not Mode.RECREATE or not names_separate_directions(procedure):
        return []
    return partitions_of(procedure, topics_back(procedure).values())


@dataclass(frozen=True)
class ReturnedClusterLogs:
    """The returned cluster's logs now, by its partitions.

    Attributes:
        remote: each one's copy on the other cluster.
        resumes: where each ended before the flow back wrote to it.
        proven: below which offset everything was on the other cluster when clients left; only after a failover whose
            source was healthy.
        gone: copies whose partition the returned cluster does not have any more, with how many offsets each holds.
        copied_back: those that hold copies of the other cluster's own topics, and will be deleted; never stranded,
            looked through for what is there only.
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
        """Ask the returned cluster, and the journal what was proven of it."""
        there = procedure.reversed
        infos = there.systems.source.topics()
        copied = deleted_copies(procedure)
        partitions = [
            *(
                TopicPartition(topic, p)
                for topic in sorted(mirrored_of(there, infos))
                for p in sorted(infos[topic].partitions)
            ),
            *copied,
        ]
        with run_concurrently() as start:
            starts, stable = (
                start(there.systems.source.starts, partitions),
                start(there.systems.source.ends, partitions, "read_committed"),
            )
            ends = there.systems.source.ends(partitions)
        boundary, remote = boundary_of(failover), remote_partitions(there, partitions)
        noted = resumed_at(procedure, failover, remote)
        return cls(
            starts=starts.result(),
            ends=ends,
            stable=stable.result(),
            remote=remote,
            # A log that lost its tail ends before.
            resumes={tp: min(end, noted.get(tp, end)) for tp, end in ends.items()},
            proven={} if failover.progress.done(ProducersFenced) is None else cut_off_of(failover),
            boundary=boundary,
            gone=gone_from(procedure, failover, remote, boundary),
            copied_back=frozenset(copied),
        )

    @property
    def nothing_beyond(self) -> bool:
        """Whether every log ends at its proven end when clients left, and no copies are to be looked through."""
        return not self.copied_back and self.resumes == {tp: self.proven.get(tp, 0) for tp in self.resumes}

    def untouched(self) -> pd.DataFrame:
        """Rows of logs that end where they were proven to end."""
        frame = partitions_frame(self.resumes, "resumes")
        told = {
            "frontier": frame["resumes"],
            "from_offset": frame["resumes"],
            **dict.fromkeys(COUNTS, 0),
            "first_at": None,
            "last_at": None,
            "exact": True,
            "evidence": "it ends where clients left it",
            **dict.fromkeys(_FILES),
        }
        return frame.assign(**told)


def resumed_at(
    procedure: Run, failover: Run, remote: dict[TopicPartition, TopicPartition]
) -> dict[TopicPartition, int]:
    """The returned cluster's log ends before the flow back first ran; {} if it never did, or writes to own topics.

    0 of a partition that was not there then and is on the other cluster: the flow has made it.
    """
    if names_separate_directions(procedure):
        return {}
    opened = failover.journal.entries(failover.id, Step.OPEN_TARGET, Entry.INTENT)[0].sequence
    journal = PairJournal(procedure)
    told = [
        (entry.sequence, frame_partitions(writer.artifacts.load(note.ends_before), "offset"), note.all_noted)
        for step in EndsNoted.steps
        for entry, writer, note in journal.facts(EndsNoted, step, opened)
    ]
    noted, whole = first_noted(told)
    infos = procedure.systems.source.topics({copy.topic for copy in remote.values()}) if whole else {}
    made = [tp for tp, copy in remote.items() if copy.topic in infos and copy.partition in infos[copy.topic].partitions]
    return dict.fromkeys(made, 0) | {tp: end for tp, end in noted.items() if tp in remote}


def gone_from(
    procedure: Run,
    failover: Run,
    remote: dict[TopicPartition, TopicPartition],
    boundary: dict[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Partitions that the failover moved and the returned cluster lacks, by names there -> offsets in their copies."""
    planned = {
        TopicPartition(moved.remote, p): TopicPartition(moved.topic, p)
        for moved in failover.progress.move().planned.topics
        for p in range(moved.partitions)
    }
    missing = [copy for copy, original in planned.items() if copy in boundary and original not in remote]
    infos = procedure.systems.source.topics({copy.topic for copy in missing})
    there = [copy for copy in missing if copy.topic in infos and copy.partition in infos[copy.topic].partitions]
    starts = procedure.systems.source.starts(there) if there else {}
    return {planned[copy]: max(0, boundary[copy] - starts[copy]) for copy in there}
