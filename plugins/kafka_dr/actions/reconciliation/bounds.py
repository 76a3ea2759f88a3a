"""Read which ranges of both clusters' logs a comparison covers.

The order of the reads makes live writes harmless: first Connect's offsets, then the target's log ends, then the
source's. So all that the target holds stands on the source, and all below Connect's offsets stands on the target.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from kafka_dr.actions.history.moves import last_move
from kafka_dr.actions.offsets.log_bounds import bounds_of
from kafka_dr.actions.scope.flow_scope import mirrored_of, names_separate_directions, remote_partitions
from kafka_dr.actions.scope.plan_scope import boundary_of, cut_off_of
from kafka_dr.actions.scope.topic_settings import append_time_in, compacted_in
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.mirror_maker.patterns import pattern_list
from kafka_dr.domain.plain_text import first_few
from kafka_dr.domain.readiness.alike_connectors import isolation_of
from kafka_dr.domain.reconciliation.choice import place_of, range_of, time_in_ms
from kafka_dr.domain.reconciliation.ranges import ChosenOffsets, PartitionLogs, ranges_of, replicated_to
from kafka_dr.errors import BadInput, ConnectUnavailable, Refusal
from kafka_dr.hooks.brokers.record import OffsetSpan, digest_of
from kafka_dr.procedure.entries import BoundsSet, MirrorMakerStopped, ProducersFenced
from kafka_dr.procedure.run import Run

_CONNECT_SECONDS = 10.0
_BOUNDS = ("source_start", "cut_off", "target_start", "boundary")
_JUDGED = {
    "judged_from": "int64",
    "judged_to": "int64",
    "replicated": "Int64",
    "source_low": "int64",
    "source_high": "int64",
    "target_low": "Int64",
    "target_high": "Int64",
}
Offsets = dict[TopicPartition, int]
#: By source partition, the offset on the source and that of its copy on the target, None without one.
Bound = dict[TopicPartition, tuple[int, int | None]]


def set_bounds(procedure: Run) -> BoundsSet:
    """Return the ranges of both logs to compare, by the params of the run; their files stand beside the evidence.

    Raises:
        Refusal: no topic is compared, or a partition of the param offset_ranges is none of them.
    """
    topics, remote = compared_partitions(procedure)
    connect = ConnectStatements.read(procedure)
    observed = ObservedLogs.read(procedure, remote, connect)
    chosen = ChosenRecords(procedure, observed)
    rows = {tp: ranges_of(logs, chosen.of(tp)) for tp, logs in observed.logs.items()}
    bounds = bounds_frame(observed, rows)
    judged = pd.DataFrame(
        [
            {"topic": tp.topic, "partition": tp.partition, **{name: row[name] for name in _JUDGED}}
            for tp, row in rows.items()
        ]
    ).astype({"partition": "int32", **_JUDGED})
    notes = [*connect.notes, *chosen.notes(), *observed.notes()]
    return BoundsSet(
        topics=len(topics),
        partitions=len(rows),
        isolation=connect.isolation,
        offsets=sum(
            row["cut_off"] - row["source_start"] + (row["boundary"] or 0) - (row["target_start"] or 0)
            for row in rows.values()
        ),
        absent=sorted(set(topics) - {tp.topic for tp, copy in remote.items() if copy.topic in observed.there}),
        only_on_target=copies_without_original(procedure, observed.there, observed.here),
        compacted=sorted({tp.topic for tp, logs in observed.logs.items() if logs.compacted}),
        limited_by=observed.limited_by,
        notes=notes,
        bounds=procedure.artifacts.save("bounds", bounds),
        judged=procedure.artifacts.save("judged", judged),
    )


def compared_partitions(procedure: Run) -> tuple[list[str], dict[TopicPartition, TopicPartition]]:
    """Return the topics of the source to compare, and source partition -> target partition.

    Raises:
        Refusal: no topic of the flow matches the param topics.
    """
    infos, chosen = procedure.systems.source.topics(), pattern_list(procedure.request.topics, "topic")
    topics = sorted(topic for topic in mirrored_of(procedure, infos) if chosen.matches(topic))
    if not topics:
        raise Refusal(
            "No topic is compared",
            f"the flow {procedure.request.source}->{procedure.request.target} mirrors no topic that matches"
            f" {procedure.request.topics!a}",
            "Correct the param topics: it takes names of the source, by regular expressions that match a whole name.",
        )
    return topics, remote_partitions(
        procedure, [TopicPartition(topic, p) for topic in topics for p in sorted(infos[topic].partitions)]
    )


@dataclass(frozen=True)
class ConnectStatements:
    """What the flow's Connect worker states.

    Attributes:
        isolation: isolation level at which MirrorMaker 2 reads the source.
        replicated: last replicated offset by source partition.
        notes: why something of this is not known.
    """

    isolation: str
    replicated: Mapping[TopicPartition, int | None]
    notes: tuple[str, ...] = ()

    @classmethod
    def read(cls, procedure: Run) -> ConnectStatements:
        """Ask the worker; if the worker does not answer, the topology states the isolation level."""
        try:
            flow = procedure.mirror_maker(procedure.flow)
            isolation = isolation_of(flow.source_config(timeout=_CONNECT_SECONDS))
            return cls(isolation, flow.offsets(timeout=_CONNECT_SECONDS).of(procedure.flow.source))
        except (BadInput, ConnectUnavailable) as error:
            why = (
                "Connect's stored offsets could not be read, so records after the last record that both clusters hold"
                f" are counted as behind: {error}"
            )
            return cls(procedure.flow.isolation, {}, (why,))


@dataclass(frozen=True)
class ObservedLogs:
    """Both clusters' logs, as read.

    Attributes:
        logs: by source partition.
        remote: source partition -> target partition.
        here, there: topics of the source, of the target.
        settings, settings_there: by topic of the source, of the target.
        limited_by: as in `BoundsSet`.
    """

    logs: Mapping[TopicPartition, PartitionLogs]
    remote: Mapping[TopicPartition, TopicPartition]
    here: frozenset[str]
    there: frozenset[str]
    settings: Mapping[str, Mapping[str, str]]
    settings_there: Mapping[str, Mapping[str, str]]
    limited_by: str | None

    @classmethod
    def read(
        cls, procedure: Run, remote: dict[TopicPartition, TopicPartition], connect: ConnectStatements
    ) -> ObservedLogs:
        """Read the logs; after a move of clients to the target, up to the ends of that move."""
        source, target = procedure.systems.source, procedure.systems.target
        infos = target.topics()
        existing = [
            copy for copy in remote.values() if copy.topic in infos and copy.partition in infos[copy.topic].partitions
        ]
        settings = source.configs(sorted({tp.topic for tp in remote}))
        settings_there = target.configs(sorted({copy.topic for copy in existing}))
        # The target's ends before the source's, see above; the starts may rise later, and are read again by the job.
        starts_there, ends_there = target.starts(existing), target.ends(existing)
        starts, ends = source.starts(remote), source.ends(remote, connect.isolation)
        move = move_to_target(procedure)
        if move is not None:
            ends, ends_there = limited_ends(move, ends, ends_there)
        compacted, compacted_there = compacted_in(settings), compacted_in(settings_there)
        restamped, restamped_there = append_time_in(settings), append_time_in(settings_there)
        logs = {
            tp: PartitionLogs(
                source_start=min(starts[tp], ends[tp]),
                source_end=ends[tp],
                target_start=min(starts_there[copy], ends_there[copy]) if copy in ends_there else None,
                target_end=ends_there.get(copy),
                replicated=connect.replicated.get(tp),
                comparable_times=tp.topic not in restamped and copy.topic not in restamped_there,
                compacted=tp.topic in compacted or copy.topic in compacted_there,
            )
            for tp, copy in remote.items()
        }
        here = frozenset(source.topics())
        return cls(logs, remote, here, frozenset(infos), settings, settings_there, move.id if move else None)

    def notes(self) -> list[str]:
        """Return what of the logs cannot be judged, as text."""
        stale = [
            str(tp)
            for tp, logs in self.logs.items()
            if logs.replicated is not None and replicated_to(logs) is None and self.limited_by is None
        ]
        return [f"Connect's offsets are those of a longer log: {first_few(stale)}"] if stale else []


def bounds_frame(observed: ObservedLogs, rows: Mapping[TopicPartition, Mapping[str, Any]]) -> pd.DataFrame:
    """Return the job's input `bounds`."""
    source_start, cut_off = ({tp: row[name] for tp, row in rows.items()} for name in ("source_start", "cut_off"))
    target_start, boundary = (
        {observed.remote[tp]: row[name] for tp, row in rows.items()} for name in ("target_start", "boundary")
    )
    return bounds_of(
        observed.remote,
        source_start=source_start,
        cut_off=cut_off,
        target_start=target_start,
        boundary=boundary,
        source_configs=observed.settings,
        target_configs=observed.settings_there,
        restamped=append_time_in(observed.settings),
    )


def move_to_target(procedure: Run) -> Run | None:
    """Return the move of clients after which they write to the topics that are compared on the target; else None.

    Clients write to mirrored topics only under identity naming.
    """
    if names_separate_directions(procedure):
        return None
    last = last_move(procedure, procedure.topology.pair_key(procedure.request.source, procedure.request.target))
    moved_here = last is not None and last.request.target == procedure.request.target
    return last if moved_here and last is not None and last.progress.done(MirrorMakerStopped) is not None else None


def limited_ends(move: Run, ends: Offsets, ends_there: Offsets) -> tuple[Offsets, Offsets]:
    """Return both clusters' log ends, at most the cut-off and the boundary of a move of clients."""
    cut_off = cut_off_of(move) if move.progress.done(ProducersFenced) is not None else {}
    boundary = boundary_of(move)
    return (
        {tp: min(end, cut_off.get(tp, end)) for tp, end in ends.items()},
        {tp: min(end, boundary.get(tp, end)) for tp, end in ends_there.items()},
    )


class ChosenRecords:
    """The records that the params since, until and offset_ranges choose."""

    def __init__(self, procedure: Run, observed: ObservedLogs) -> None:
        self._procedure, self._observed = procedure, observed
        choices = procedure.request.choices
        ranges = {place_of(place): range_of(text) for place, text in choices.get("offset_ranges", {}).items()}
        self._ranges = {tp: offsets for tp, offsets in ranges.items() if tp is not None and offsets is not None}
        self._refuse_others()
        self._times = [time_in_ms(choices[name]) if name in choices else None for name in ("since", "until")]
        self._bounds = [self._at(number, at) for number, at in enumerate(self._times)]

    def of(self, tp: TopicPartition) -> ChosenOffsets:
        """Return the chosen records of a partition; its own range of offsets counts before the times."""
        nothing = (None, None)
        (source_from, target_from), (source_to, target_to) = (bound.get(tp, nothing) for bound in self._bounds)
        return ChosenOffsets(source_from, source_to, target_from, target_to)

    def notes(self) -> list[str]:
        """Return which partitions are compared as a whole in spite of the params."""
        whole = sorted({tp.topic for tp, logs in self._observed.logs.items() if logs.compacted})
        if not whole or (not self._ranges and self._times == [None, None]):
            return []
        return [f"Compacted topics are compared as a whole, whatever is chosen: {first_few(whole)}"]

    def _refuse_others(self) -> None:
        others = sorted(str(tp) for tp in self._ranges if tp not in self._observed.logs)
        if others:
            raise Refusal(
                "A partition of offset_ranges is not compared",
                first_few(others),
                "Correct offset_ranges: name partitions of topics that the flow mirrors and that the param topics"
                " chooses.",
            )

    def _at(self, number: int, time: int | None) -> Bound:
        """Return by partition the source offset and the target offset of one bound, the first (0) or the last (1)."""
        by_time = {} if time is None else dict.fromkeys(self._observed.logs, time)
        bounds = self._offsets_at(by_time)
        offsets = {tp: offset for tp, ends in self._ranges.items() if (offset := ends[number]) is not None}
        times = self._times_at(offsets)
        there = self._offsets_there(times)
        return bounds | {tp: (offset, there.get(tp)) for tp, offset in offsets.items()}

    def _offsets_at(self, times: Offsets) -> Bound:
        """Return by partition the first offsets on source and target at or after a time; without one, the log ends."""
        here, there = self._procedure.systems.source.offsets_at(times) if times else {}, self._offsets_there(times)
        ends = {tp: self._observed.logs[tp].source_end for tp in times}
        return {tp: (ends[tp] if here[tp] < 0 else here[tp], there.get(tp)) for tp in times}

    def _offsets_there(self, times: Mapping[TopicPartition, int]) -> Offsets:
        """Return by source partition the first offset of its copy at or after a time; without one, the copy's end."""
        logs, remote = self._observed.logs, self._observed.remote
        existing = {remote[tp]: at for tp, at in times.items() if logs[tp].target_end is not None}
        there = self._procedure.systems.target.offsets_at(existing) if existing else {}
        return {
            tp: (logs[tp].target_end or 0) if there[remote[tp]] < 0 else there[remote[tp]]
            for tp in times
            if remote[tp] in there
        }

    def _times_at(self, offsets: Offsets) -> Offsets:
        """Return by partition the timestamp of its first record at or after an offset, if there is one."""
        logs = self._observed.logs
        spans = {
            tp: OffsetSpan(max(offset, logs[tp].source_start), logs[tp].source_end) for tp, offset in offsets.items()
        }
        reader = self._procedure.systems.reader(self._procedure.request.source)
        records = reader.ranges({tp: span for tp, span in spans.items() if span.start < span.end}, 1, take=digest_of)
        return {tp: first[0].timestamp for tp, first in records.items() if first and first[0].timestamp is not None}


def copies_without_original(procedure: Run, there: Iterable[str], here: Iterable[str]) -> list[str]:
    """Return topics of the target that are copies of source topics by their names, and whose originals are missing."""
    naming, alias, originals = procedure.naming, procedure.flow.source, set(here)
    return sorted(
        topic
        for topic in there
        if naming.source_alias(topic) == alias
        and not naming.is_internal(topic)
        and not naming.is_heartbeats(topic)
        and naming.upstream(topic) not in originals
    )
