"""Continue a planned failover whose source died as an unplanned one: take its lease, and what it had proven.

Invariants
1. One of both holds the lease; each change stands in the planned run's journal, written with it at once.
2. return_to_source writes its intent to reopen before it lifts anything, under its lease. So a planned run that lost
   its lease without that intent never lifts its fence any more, whatever of it is still alive.
3. What a step proved counts only while nothing since speaks against it; when in doubt it does not, and the doubt is
   told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

import pandas as pd

from kafka_dr.actions.loss.last_known_state import NO_POSITION, LastKnown
from kafka_dr.actions.recheck import source_ends_are_cut_off, source_reopened, source_still_fenced
from kafka_dr.actions.scope.flow_scope import remote_partitions
from kafka_dr.actions.scope.position_frames import frame_partitions
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import Contradiction, FenceNotProven, LeaseLost, Refusal, SystemUnavailable
from kafka_dr.hooks.journal.leases import CONTINUED
from kafka_dr.hooks.journal.tables import JournalEntry
from kafka_dr.procedure.entries import (
    ConsumersDrained,
    ContinuedRun,
    FailoverForecast,
    LeasePassed,
    MirrorMakerStopped,
    OffsetsTranslated,
    ProcedureAborted,
    ProducersFenced,
    Receipt,
    StepRefused,
    facts_of,
    newest_fact,
)
from kafka_dr.procedure.run import Run
from kafka_dr.procedures import PLANNED_FAILOVER
from kafka_dr.recorder.history import PARTITION
from kafka_dr.vocabulary import Entry, Step

#: Steps whose proofs are taken over, each resting on those before it.
_PROVING = (
    Step.FENCE_PRODUCERS,
    Step.DRAIN_CONSUMERS,
    Step.WAIT_FOR_ZERO_LAG,
    Step.STOP_MIRROR_MAKER,
    Step.TRANSLATE_OFFSETS,
)
_AGAINST = frozenset({FenceNotProven.__name__, Contradiction.__name__})


# -- the lease -----------------------------------------------------------------------------------------------------


def take_over(procedure: Run) -> None:
    """Take the lease of the planned run that this one continues, if there is one and that is not done yet.

    Raises:
        Refusal: it cannot be continued.
        LeaseLost: it wrote something while it was looked at.
    """
    continued, lease = procedure.progress.continues, procedure.journal.lease(procedure.pair)
    if continued is None or (lease is not None and lease.holder == procedure.id):
        return
    earlier = procedure.other(continued)
    if earlier is None:
        raise Refusal(f"{continued} cannot be continued", *_UNKNOWN)
    holder = None if lease is None or lease.released_at is not None else lease.holder
    known = procedure.journal.entries(continued)
    why = _why_not(procedure, earlier, holder)
    if why is not None:
        raise Refusal(f"{continued} cannot be continued", *why)
    told = _entry_of(earlier, LeasePassed(continued_by=procedure.id))
    procedure.journal.pass_lease(procedure.pair, earlier.id, procedure.id, CONTINUED, told, seen=known[-1].sequence)


_UNKNOWN = ("the journal knows no procedure of this name", "Its id is the name of its evidence folder.")


def _why_not(procedure: Run, earlier: Run, holder: str | None) -> tuple[str, str] | None:
    """What was seen, and what to do instead; None where nothing speaks against it."""
    asked, wanted = earlier.request, procedure.request
    if (earlier.identity.dag_id, asked.source, asked.target) != (PLANNED_FAILOVER.dag_id, wanted.source, wanted.target):
        return (
            f"it is a {earlier.identity.dag_id} from {asked.source} to {asked.target}",
            "Only a planned failover of the same source and target is continued.",
        )
    if holder != earlier.id:
        return (
            f"{holder or 'nobody'} holds the clusters",
            "Wait for the one that holds them; then start a new run without continue_procedure.",
        )
    if earlier.progress.began(Step.OPEN_TARGET) is not None:
        return "open_target had begun", "There is only forward: clear its failed step."
    aborted = earlier.progress.done(ProcedureAborted)
    if aborted is None:
        return None
    return f"{aborted.by} aborted it", "Wait until its return_to_source is done: it needs the source."


def suggest_takeover(procedure: Run, error: LeaseLost) -> LeaseLost:
    """The same refusal; where a planned run of the same direction holds the pair, with how to go on from it."""
    lease = procedure.journal.lease(procedure.pair)
    if lease is None or lease.released_at is not None or lease.holder == procedure.id:
        return error
    earlier = procedure.other(lease.holder)
    if earlier is None or _why_not(procedure, earlier, lease.holder):
        return error
    return LeaseLost(
        error.reason,
        error.seen,
        f"if its source died, start unplanned_failover with continue_procedure={earlier.id}; else wait for it, or abort"
        " it first",
    )


def give_back(procedure: Run, earlier: Run, outcome: str) -> None:
    """Give the lease back to the planned run, whose own return_to_source then lifts its fence."""
    told = _entry_of(earlier, LeasePassed(continued_by=None, given_back_by=procedure.id, outcome=outcome))
    procedure.journal.pass_lease(procedure.pair, procedure.id, earlier.id, outcome, told)


def _entry_of(earlier: Run, passed: LeasePassed) -> tuple[str, str, str, dict[str, Any]]:
    return earlier.id, Step.OPEN_PROCEDURE, passed.kind, passed.payload()


def what_is_continued(procedure: Run) -> ContinuedRun | None:
    """The planned run, and whether it had begun to fence the source; None where nothing is continued."""
    if procedure.progress.continues is None:
        return None
    earlier = procedure.require_other(procedure.progress.continues)
    return ContinuedRun(earlier.id, fenced=earlier.progress.began(Step.FENCE_PRODUCERS) is not None)


# -- what it had proven --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ProvenFacts:
    """What counts of what a planned run had proven; empty where nothing is continued.

    Attributes:
        topics: of its plan: source topic -> its name on the target, partitions, id.
        cut_off: the source's last log ends, by source partition; empty where they may not be the last.
        fenced_at: since when nobody could write there, ISO 8601 UTC.
        positions: the groups' frozen positions; None where they were not frozen.
        boundary: the target's log ends below which everything under the cut-off stands, by source partition.
        missing: what its translation did not find on the target: `holes` and `cut`, as of OffsetsTranslated.
        active: groups that had members before it stopped them.
        doubts: what was not taken over, and why.
    """

    procedure_id: str | None = None
    topics: Mapping[str, tuple[str, int, str | None]] = field(default_factory=dict)
    cut_off: dict[TopicPartition, int] = field(default_factory=dict)
    fenced_at: str | None = None
    positions: pd.DataFrame | None = None
    boundary: Mapping[TopicPartition, int] = field(default_factory=dict)
    missing: Mapping[str, Any] = field(default_factory=dict)
    active: frozenset[str] = frozenset()
    doubts: tuple[str, ...] = ()

    def without_proofs(self, why: str) -> ProvenFacts:
        """The same without anything that rests on the fence."""
        return ProvenFacts(
            self.procedure_id,
            self.topics,
            active=self.active,
            doubts=(*self.doubts, f"nothing that {self.procedure_id} had proven is taken over: {why}"),
        )

    def drained(self, ends: Mapping[TopicPartition, int]) -> set[TopicPartition]:
        """Source partitions of which everything stands on the target, whose log there ends as it was left.

        Args:
            ends: the target's log ends now, by source partition.
        """
        return {tp for tp, end in self.boundary.items() if ends.get(tp) == end}


def what_was_proven(procedure: Run) -> ProvenFacts:
    """What the journal and the files of the continued run prove; nothing of either cluster is asked."""
    if procedure.progress.continues is None:
        return ProvenFacts()
    earlier = procedure.require_other(procedure.progress.continues)
    forecast = earlier.progress.done(FailoverForecast)
    if forecast is None:
        return ProvenFacts(earlier.id)
    topics = {topic: (name, count, topic_id) for topic, name, count, topic_id in earlier.progress.move().planned.topics}
    found = ProvenFacts(earlier.id, topics, active=frozenset(forecast.active_groups))
    done = _standing(earlier)
    for entry, fenced in facts_of(done, ProducersFenced):
        doubt = _doubt(earlier, entry, fenced)
        return found.without_proofs(doubt) if doubt else _read(earlier, found, fenced, done)
    return found


def _standing(earlier: Run) -> list[JournalEntry]:
    """Outcomes of the proving steps, as far as each came after the one before, and was not begun again since."""
    found: list[JournalEntry] = []
    for step in _PROVING:
        entries = [
            e
            for e in earlier.journal.entries(earlier.id, step)
            if e.kind in (Entry.INTENT, Entry.OUTCOME, Entry.FAILURE)
        ]
        since = found[-1].sequence if found else 0
        if not entries or entries[-1].kind != Entry.OUTCOME or entries[-1].sequence < since:
            break
        found.append(entries[-1])
    return found


def _doubt(earlier: Run, entry: JournalEntry, fenced: ProducersFenced) -> str:
    """Why the source's log may go on behind the cut-off; empty if nothing says so."""
    if fenced.fenced_at is None:
        return "its fence was not proven on every broker"
    if source_reopened(earlier):
        return "it had begun to give the source back"
    since = [e for e in earlier.journal.entries(earlier.id, kind=Entry.REFUSAL) if e.sequence > entry.sequence]
    refusals = facts_of(since, StepRefused)
    against = [f"{e.step} found: {refused.reason}" for e, refused in refusals if refused.error in _AGAINST]
    return against[-1] if against else ""


def _read(earlier: Run, found: ProvenFacts, fenced: ProducersFenced, done: list[JournalEntry]) -> ProvenFacts:
    """With what stands in the files of the steps that are done, each of the very content that the journal knows."""
    doubts: list[str] = []

    def kept(step: Step, receipt: Receipt | None) -> pd.DataFrame | None:
        try:
            return None if receipt is None else earlier.artifacts.load(receipt)
        except Contradiction as error:
            doubts.append(f"what {step} of {earlier.id} had proven is not taken over: {error}")
            return None

    ends = kept(Step.FENCE_PRODUCERS, fenced.cut_off)
    if ends is None:
        return replace(found, doubts=tuple(doubts))
    drained, stopped = newest_fact(done, ConsumersDrained), newest_fact(done, MirrorMakerStopped)
    translated = newest_fact(done, OffsetsTranslated)
    cut_off, left = (
        frame_partitions(ends, "offset"),
        kept(Step.STOP_MIRROR_MAKER, stopped.boundary if stopped else None),
    )
    return replace(
        found,
        cut_off=cut_off,
        fenced_at=fenced.fenced_at,
        positions=kept(Step.DRAIN_CONSUMERS, drained.positions if drained else None),
        boundary={} if left is None else _by_source(earlier, cut_off, frame_partitions(left, "offset")),
        missing={"holes": [*map(asdict, translated.holes)], "cut": [*map(asdict, translated.cut)]}
        if translated
        else {},
        doubts=tuple(doubts),
    )


def _by_source(
    earlier: Run, cut_off: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The target's ends by source partition; the stop of MirrorMaker 2 checked itself that the cut-off was drained."""
    return {tp: ends[there] for tp, there in remote_partitions(earlier, cut_off).items() if there in ends}


def still_proven(procedure: Run, proven: ProvenFacts, seen: Mapping[TopicPartition, int], lost: bool) -> ProvenFacts:
    """The same, unless what was seen of the source since speaks against it.

    Args:
        seen: log ends of the source as the recorder saw them last.
        lost: whether it was found lost; if not, it is looked at again.
    """
    if proven.procedure_id is None or not proven.cut_off:
        return proven
    grown = [
        f"{tp}: {proven.cut_off[tp]} -> {end}" for tp, end in sorted(seen.items()) if end > proven.cut_off.get(tp, end)
    ]
    if grown:
        return proven.without_proofs(f"the recorder saw log ends of the source beyond the cut-off: {first_few(grown)}")
    try:
        if not lost:
            _look_again(procedure, proven.procedure_id)
    except (Refusal, SystemUnavailable) as error:
        return proven.without_proofs(str(error))
    return proven


def _look_again(procedure: Run, procedure_id: str) -> None:
    """A source that was not found lost is fenced still, and ends where it was cut off."""
    earlier = procedure.require_other(procedure_id)
    earlier.systems.share_clients(procedure.systems)
    source_still_fenced(earlier)
    source_ends_are_cut_off(earlier)


def with_what_was_proven(procedure: Run, known: LastKnown, proven: ProvenFacts) -> LastKnown:
    """Complete what is known: the plan's topics, groups active before the stop, final positions for seen ones."""
    if proven.procedure_id is None:
        return known
    counts = {topic: count for topic, (_, count, _) in known.topics.items()}
    topics = {
        topic: (name, max(count, counts.get(topic, 0)), topic_id)
        for topic, (name, count, topic_id) in proven.topics.items()
    }
    positions = _final_positions(known.positions, proven.positions)
    return replace(
        known,
        # Without a proven fence topics may have been made anew since the forecast.
        topics=known.topics | topics if proven.cut_off else topics | known.topics,
        positions=positions,
        active=(known.active | proven.active) & frozenset(positions["group"]),
        moving=known.moving if proven.positions is None else known.moving - frozenset(proven.positions["group"]),
        missing=(
            *(note for note in known.missing if note != NO_POSITION or not len(positions)),
            *proven.doubts,
            *_beyond_the_fence(procedure, proven),
        ),
    )


def _final_positions(seen: pd.DataFrame, frozen: pd.DataFrame | None) -> pd.DataFrame:
    """Of a group that was frozen what was frozen and nothing else; of the others what was seen last."""
    if frozen is None:
        return seen
    others = seen[~seen["group"].isin(set(frozen["group"]))]
    return (
        pd.concat([frozen[seen.columns], others], ignore_index=True)
        .astype(seen.dtypes.to_dict())
        .sort_values(["group", *PARTITION], ignore_index=True)
    )


def _beyond_the_fence(procedure: Run, proven: ProvenFacts) -> Iterable[str]:
    if proven.cut_off:
        yield (
            f"what a super user of {procedure.request.source}, whom no fence stops, wrote there after"
            f" {proven.fenced_at} is not among the loss"
        )


def plan_section(proven: ProvenFacts, drained: int) -> dict[str, Any] | None:
    """For the plan: what is continued, and what is taken from it as proven; None where nothing is continued.

    Args:
        drained: how many partitions are drained by its proof.
    """
    if proven.procedure_id is None:
        return None
    return {
        "procedure_id": proven.procedure_id,
        "fenced_at": proven.fenced_at,
        "partitions": len(proven.cut_off),
        "drained": drained,
        "positions": None if proven.positions is None else len(proven.positions),
        "missing": sum(one["records"] for found in proven.missing.values() for one in found),
    }


def epoch_milliseconds(at: str | None) -> int | None:
    """A time as milliseconds since 1970."""
    return None if at is None else int(datetime.fromisoformat(at).timestamp() * 1000)
