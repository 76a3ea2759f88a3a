"""The old flow's offsets in Connect: what it copied although it was stopped, and where it would go on.

While the reverse flow ran it copied records from the target to the old source. An old flow that is resumed would copy
these records back, unless it is disabled. So its offsets are set to the source's log ends, as soon as both flows are
STOPPED: whoever resumes it later copies only what is new on the old source.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from kafka_dr.actions.replication.reverse import mirrored_ends
from kafka_dr.actions.scope.position_frames import frame_partitions, partitions_frame
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import BadInput, DeadlinePassed, NotReady, SwitchbackError, SystemUnavailable
from kafka_dr.hooks.journal.tables import JournalEntry
from kafka_dr.procedure.entries import (
    MirrorMakerStopped,
    MoveDefended,
    OldSourceFenced,
    ProducersFenced,
    Receipt,
    RecordsPassed,
    SourceFencedByAcl,
    entries_about,
    facts_in,
)
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Step

_SECONDS = 5.0
_STABLE_SECONDS = 0.5
#: How long the offsets are tried to be set, and how long one stop may take, in seconds.
_SEED_SECONDS, _STOP_SECONDS = 6.0, 3.0
_MOST_LISTED = 100


def seed_at_ends(procedure: Run) -> Receipt:
    """Set the old flow's offsets to the source's log ends; return their receipt. The reverse flow must be STOPPED.

    Whoever resumes the old flow may do so just before its offsets are set, which Connect then refuses. So for some
    seconds the flow is stopped and its offsets are set again and again: without these offsets it would copy all that
    the reverse flow has copied. A disabled flow copies nothing, so its offsets are tried once.

    Raises:
        NotReady: log ends of the source still move, so the reverse flow may still write.
        SystemUnavailable: Connect did not take the offsets in time.
    """
    ends_at = time.monotonic() + (_SEED_SECONDS if _is_enabled(procedure) else 0.0)
    while True:
        try:
            return _seed_once(procedure)
        except (NotReady, SystemUnavailable):
            if time.monotonic() >= ends_at:
                raise
        procedure.authority.hold()
        with suppress(SystemUnavailable, DeadlinePassed):
            procedure.systems.flow_connectors(procedure.flow).stop_sources(deadline=_STOP_SECONDS)


def _is_enabled(procedure: Run) -> bool:
    """Whether the old flow copies when it is resumed; True if Connect does not say."""
    connectors = procedure.systems.flow_connectors(procedure.flow)
    try:
        return any(connectors.is_enabled(name, _SECONDS) for name in connectors.sources)
    except SystemUnavailable:
        return True


def _seed_once(procedure: Run) -> Receipt:
    ends = mirrored_ends(procedure, [])
    time.sleep(_STABLE_SECONDS)
    if mirrored_ends(procedure, []) != ends:
        raise NotReady("Log ends of the old source still move", f"on {procedure.request.source}")
    receipt = procedure.artifacts.save(
        "old_flow_seeds", partitions_frame({tp: e - 1 for tp, e in ends.items()}, "offset")
    )
    seeds = {tp: end - 1 if end > 0 else None for tp, end in ends.items()}
    procedure.systems.flow_connectors(procedure.flow).change_offsets(seeds, procedure.authority.hold)
    return receipt


def passed_records(procedure: Run) -> RecordsPassed:
    """Return which records the old flow copied after its stop, and which the old source took in after its fence.

    Args:
        procedure: the procedure that moved the clients.
    """
    problems: list[str] = []

    def listed(about: str, read: Callable[[Run], list[str]]) -> list[str]:
        try:
            return read(procedure)
        except (SwitchbackError, OSError) as error:
            problems.append(f"{about}: {error}")
            return []

    return RecordsPassed(
        passed_boundary=listed("boundary", copied_by_old_flow),
        passed_cut_off=listed("cut-off", _taken_in_by_source),
        not_read=problems,
    )


def copied_by_old_flow(procedure: Run) -> list[str]:
    """Return the source records that the old flow has copied after it was last stopped, by partition, as text.

    By the offsets that Connect stores: log ends of the target show it only where no client writes to the topic.
    """
    flow, before = procedure.flow, _offsets_when_stopped(procedure)
    now = procedure.systems.flow_connectors(flow).offsets(timeout=_SECONDS).of(flow.source)
    return _shortened(
        [
            f"{tp}: source offsets {before.get(tp, -1) + 1} to {last}"
            for tp, last in sorted(now.items())
            if last is not None and last > before.get(tp, -1) and not procedure.naming.is_heartbeats(tp.topic)
        ]
    )


def _offsets_when_stopped(procedure: Run) -> Mapping[TopicPartition, int]:
    """Return source partition -> last offset that the old flow had copied when the watcher or the run stopped it."""
    seeds = [fact.seeds for fact in facts_in(_own_entries(procedure, Step.WATCH_OLD_SOURCE), MoveDefended)]
    stopped = procedure.progress.done(MirrorMakerStopped)
    receipt = next((seed for seed in reversed(seeds) if seed is not None), stopped.replicated if stopped else None)
    if receipt is None:
        raise BadInput("the offsets at the stop of the flow are unknown")
    return frame_partitions(procedure.artifacts.load(receipt), "offset")


def _taken_in_by_source(procedure: Run) -> list[str]:
    cut_off = _cut_off(procedure)
    ends = procedure.systems.source.ends(sorted(cut_off), timeout=_SECONDS)
    return _shortened(
        [f"{tp}: offsets {cut_off[tp]} to {ends[tp] - 1}" for tp in sorted(cut_off) if ends[tp] > cut_off[tp]]
    )


def _cut_off(procedure: Run) -> Mapping[TopicPartition, int]:
    """Return source partition -> log end behind the fence, of whichever step fenced the source."""
    own = _own_entries(procedure, Step.FENCE_PRODUCERS, Step.FENCE_SOURCE, Step.WATCH_OLD_SOURCE)
    receipts: list[Receipt] = [fact.cut_off for fact in facts_in(own, ProducersFenced)]
    receipts += [fact.ends_at_fence for fact in facts_in(own, SourceFencedByAcl)]
    receipts += [fact.ends_at_fence for fact in facts_in(own, OldSourceFenced)]
    if not receipts:
        raise BadInput("no step of the procedure has fenced the source")
    return frame_partitions(procedure.artifacts.load(receipts[0]), "offset")


def _own_entries(procedure: Run, *steps: Step) -> list[JournalEntry]:
    return entries_about(procedure.journal.entries_of_steps(steps), procedure.id)


def _shortened(rows: list[str]) -> list[str]:
    more = [f"and {len(rows) - _MOST_LISTED} more partitions"] if len(rows) > _MOST_LISTED else []
    return [*rows[:_MOST_LISTED], *more]
