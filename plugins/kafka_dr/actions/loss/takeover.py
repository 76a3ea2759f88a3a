"""Take lease and proofs of an earlier run whose source died, which an unplanned failover (this run) continues.

The earlier run is a planned failover, or one of re_replicate_topics, which proves nothing that this run could use.

Invariants
1. One of the two runs holds the lease. A transfer and the planned run's journal entry about it are one transaction.
2. return_to_source writes its intent to reopen the source before it lifts a fence, under the run's lease. So a planned
   run that lost its lease without that intent never lifts its fence, even if some of its processes still run.
3. A step's proof is used only if no later journal entry or observation contradicts it. Else `doubts` states why.
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
from kafka_dr.procedures import PLANNED_FAILOVER, RE_REPLICATE_TOPICS
from kafka_dr.recorder.history import PARTITION
from kafka_dr.vocabulary import Entry, Step

#: Steps of the earlier run whose proofs are used; each proof depends on the proofs of the steps before.
_PROVING = (
    Step.FENCE_PRODUCERS,
    Step.DRAIN_CONSUMERS,
    Step.WAIT_FOR_ZERO_LAG,
    Step.STOP_MIRROR_MAKER,
    Step.TRANSLATE_OFFSETS,
)
#: DAGs whose runs stop on the way, with the lease, when their source dies.
_CONTINUED = (PLANNED_FAILOVER.dag_id, RE_REPLICATE_TOPICS.dag_id)
_CONTRADICTING_ERRORS = frozenset({FenceNotProven.__name__, Contradiction.__name__})


# -- the lease -----------------------------------------------------------------------------------------------------


def take_over(procedure: Run) -> None:
    """Take the lease from the earlier run that this run continues, if any, unless this run holds the lease already.

    Raises:
        Refusal: the earlier run cannot be continued.
        LeaseLost: the earlier run wrote a journal entry during the transfer.
    """
    continued, lease = procedure.progress.continues, procedure.journal.lease(procedure.pair)
    if continued is None or (lease is not None and lease.holder == procedure.id):
        return
    earlier = procedure.other(continued)
    if earlier is None:
        raise Refusal(f"{continued} cannot be continued", *_UNKNOWN_PROCEDURE)
    holder = None if lease is None or lease.released_at is not None else lease.holder
    entries = procedure.journal.entries(continued)
    refusal = _refusal_of(procedure, earlier, holder)
    if refusal is not None:
        raise Refusal(f"{continued} cannot be continued", *refusal)
    passed = _journal_entry(earlier, LeasePassed(continued_by=procedure.id))
    procedure.journal.pass_lease(procedure.pair, earlier.id, procedure.id, CONTINUED, passed, seen=entries[-1].sequence)


_UNKNOWN_PROCEDURE = (
    "the journal holds no procedure with this id",
    "Start a new run; continue_procedure is the procedure's id, which is also the name of its evidence folder.",
)


def _refusal_of(procedure: Run, earlier: Run, holder: str | None) -> tuple[str, str] | None:
    """Return (why the earlier run cannot be continued, what to do); None if it can. `holder` is the lease's holder."""
    earlier_request, request = earlier.request, procedure.request
    same_clusters = (earlier_request.source, earlier_request.target) == (request.source, request.target)
    if earlier.identity.dag_id not in _CONTINUED or not same_clusters:
        return (
            f"{earlier.id} is a {earlier.identity.dag_id} from {earlier_request.source} to {earlier_request.target}",
            f"Start a new run whose continue_procedure is a {' or '.join(_CONTINUED)} with the same source and target.",
        )
    if holder != earlier.id:
        wait = "" if holder is None else f"Wait until {holder} has ended. "
        seen = f"{holder or 'no procedure'} holds the lease on the clusters {procedure.pair}"
        return seen, f"{wait}Start a new run without continue_procedure."
    if earlier.progress.began(Step.OPEN_TARGET) is not None:
        return f"open_target of {earlier.id} has begun", "Clear the failed task of that run with its downstream tasks."
    aborted = earlier.progress.done(ProcedureAborted)
    if aborted is None:
        return None
    return (
        f"{aborted.by} aborted {earlier.id}",
        f"Wait until return_to_source of {earlier.id} is done; that step needs an answer of {earlier_request.source}.",
    )


def suggest_takeover(procedure: Run, error: LeaseLost) -> LeaseLost:
    """Return the error, with advice how to continue the run that holds the lease if that run can be continued."""
    lease = procedure.journal.lease(procedure.pair)
    if lease is None or lease.released_at is not None or lease.holder == procedure.id:
        return error
    earlier = procedure.other(lease.holder)
    if earlier is None or _refusal_of(procedure, earlier, lease.holder):
        return error
    return LeaseLost(
        error.reason,
        error.seen,
        f"If {earlier.request.source}, the source of {earlier.id}, does not answer, start unplanned_failover with"
        f" continue_procedure={earlier.id}. Otherwise wait until {earlier.id} has ended, or run abort_procedure; then"
        " start a new run.",
    )


def give_back(procedure: Run, earlier: Run, outcome: str) -> None:
    """End this run's lease with `outcome`, and pass it back to the planned run, whose return_to_source can then act."""
    passed = _journal_entry(earlier, LeasePassed(continued_by=None, given_back_by=procedure.id, outcome=outcome))
    procedure.journal.pass_lease(procedure.pair, procedure.id, earlier.id, outcome, passed)


def _journal_entry(earlier: Run, passed: LeasePassed) -> tuple[str, str, str, dict[str, Any]]:
    return earlier.id, Step.OPEN_PROCEDURE, passed.kind, passed.payload()


def what_is_continued(procedure: Run) -> ContinuedRun | None:
    """Return the planned run that this run continues, and whether it had begun to fence the source; else None."""
    if procedure.progress.continues is None:
        return None
    earlier = procedure.require_other(procedure.progress.continues)
    return ContinuedRun(earlier.id, fenced=earlier.progress.began(Step.FENCE_PRODUCERS) is not None)


# -- proofs of that run --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ProvenFacts:
    """Proofs of the continued planned run that this run uses; all empty if this run continues no planned run.

    Attributes:
        procedure_id: id of the planned run.
        topics: by its plan, source topic -> target topic, partition count, topic id.
        cut_off: source partition -> log end behind the fence; {} if logs may have grown beyond the cut-off.
        fenced_at: when the fence on the source was proven, ISO 8601 UTC.
        positions: the groups' positions on the source once the groups were fenced; None if the groups were not fenced.
        boundary: source partition -> target log end below which the target has all records below the cut-off.
        missing: `holes`, `cut` -> source records without a copy on the target; in `cut`: retention deleted the copy.
        active: groups that had members before drain_consumers.
        doubts: proofs that are not used, each with the reason.
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
        """Return these facts without the proofs that depend on the source's fence; `why` is added to the doubts."""
        return ProvenFacts(
            self.procedure_id,
            self.topics,
            active=self.active,
            doubts=(*self.doubts, f"this run uses nothing that {self.procedure_id} has proven: {why}"),
        )

    def drained(self, ends: Mapping[TopicPartition, int]) -> set[TopicPartition]:
        """Return the source partitions that are drained and whose target log still ends at the boundary.

        Args:
            ends: source partition -> current target log end.
        """
        return {tp for tp, end in self.boundary.items() if ends.get(tp) == end}


def read_proven_facts(procedure: Run) -> ProvenFacts:
    """Return the proofs of the continued run, from its journal entries and files; reads neither cluster."""
    if procedure.progress.continues is None:
        return ProvenFacts()
    earlier = procedure.require_other(procedure.progress.continues)
    forecast = earlier.progress.done(FailoverForecast)
    if forecast is None:
        return ProvenFacts(earlier.id)
    topics = {topic: (name, count, topic_id) for topic, name, count, topic_id in earlier.progress.moved_topics()}
    plan_facts = ProvenFacts(earlier.id, topics, active=frozenset(forecast.active_groups))
    outcomes = _valid_outcomes(earlier)
    for entry, fenced in facts_of(outcomes, ProducersFenced):
        doubt = _doubt(earlier, entry, fenced)
        return plan_facts.without_proofs(doubt) if doubt else _with_files(earlier, plan_facts, fenced, outcomes)
    return plan_facts


def _valid_outcomes(earlier: Run) -> list[JournalEntry]:
    """Return the newest outcomes of the proving steps, in their order, up to the first missing or outdated outcome."""
    outcomes: list[JournalEntry] = []
    for step in _PROVING:
        entries = [
            entry
            for entry in earlier.journal.entries(earlier.id, step)
            if entry.kind in (Entry.INTENT, Entry.OUTCOME, Entry.FAILURE)
        ]
        since = outcomes[-1].sequence if outcomes else 0
        if not entries or entries[-1].kind != Entry.OUTCOME or entries[-1].sequence < since:
            break
        outcomes.append(entries[-1])
    return outcomes


def _doubt(earlier: Run, entry: JournalEntry, fenced: ProducersFenced) -> str:
    """Return why the source's logs may have grown beyond the cut-off; empty if no journal entry gives a reason."""
    if fenced.fenced_at is None:
        return "the fence on the source was not proven on every broker"
    if source_reopened(earlier):
        return "return_to_source had begun to lift the fence on the source"
    later_refusals = [
        refusal
        for refusal in earlier.journal.entries(earlier.id, kind=Entry.REFUSAL)
        if refusal.sequence > entry.sequence
    ]
    refusals = facts_of(later_refusals, StepRefused)
    contradictions = [
        f"{refusal.step} was refused: {refused.reason}"
        for refusal, refused in refusals
        if refused.error in _CONTRADICTING_ERRORS
    ]
    return contradictions[-1] if contradictions else ""


def _with_files(
    earlier: Run, plan_facts: ProvenFacts, fenced: ProducersFenced, outcomes: list[JournalEntry]
) -> ProvenFacts:
    """Return the facts with the files that the done steps saved; a missing or changed file becomes a doubt."""
    doubts: list[str] = []

    def load_file(step: Step, receipt: Receipt | None) -> pd.DataFrame | None:
        try:
            return None if receipt is None else earlier.artifacts.load(receipt)
        except Contradiction as error:
            doubts.append(f"this run does not use what {step} of {earlier.id} has proven: {error.reason}: {error.seen}")
            return None

    ends = load_file(Step.FENCE_PRODUCERS, fenced.cut_off)
    if ends is None:
        return replace(plan_facts, doubts=tuple(doubts))
    drained, stopped = newest_fact(outcomes, ConsumersDrained), newest_fact(outcomes, MirrorMakerStopped)
    translated = newest_fact(outcomes, OffsetsTranslated)
    cut_off, boundary = (
        frame_partitions(ends, "offset"),
        load_file(Step.STOP_MIRROR_MAKER, stopped.boundary if stopped else None),
    )
    return replace(
        plan_facts,
        cut_off=cut_off,
        fenced_at=fenced.fenced_at,
        positions=load_file(Step.DRAIN_CONSUMERS, drained.positions if drained else None),
        boundary={} if boundary is None else _ends_by_source(earlier, cut_off, frame_partitions(boundary, "offset")),
        missing={"holes": [*map(asdict, translated.holes)], "cut": [*map(asdict, translated.cut)]}
        if translated
        else {},
        doubts=tuple(doubts),
    )


def _ends_by_source(
    earlier: Run, cut_off: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return source partition -> boundary of its target partition; stop_mirror_maker proved each partition drained."""
    return {tp: ends[target_tp] for tp, target_tp in remote_partitions(earlier, cut_off).items() if target_tp in ends}


def recheck_proven_facts(
    procedure: Run, proven: ProvenFacts, sampled_ends: Mapping[TopicPartition, int], lost: bool
) -> ProvenFacts:
    """Return the proofs; if later observations contradict the fence, without the proofs that depend on the fence.

    Args:
        sampled_ends: source log ends in the flight recorder's last sample.
        lost: whether the source was confirmed lost; if it was not, fence and log ends of the source are checked again.
    """
    if proven.procedure_id is None or not proven.cut_off:
        return proven
    grown = [
        f"{tp}: {proven.cut_off[tp]} -> {end}"
        for tp, end in sorted(sampled_ends.items())
        if end > proven.cut_off.get(tp, end)
    ]
    if grown:
        return proven.without_proofs(
            f"the recorder sampled log ends of the source beyond the cut-off: {first_few(grown)}"
        )
    try:
        if not lost:
            _recheck_source(procedure, proven.procedure_id)
    except (Refusal, SystemUnavailable) as error:
        return proven.without_proofs(str(error))
    return proven


def _recheck_source(procedure: Run, procedure_id: str) -> None:
    """Refuse unless the source, which was not confirmed lost, is still fenced, with log ends at the cut-off."""
    earlier = procedure.require_other(procedure_id)
    earlier.systems.share_clients(procedure.systems)
    source_still_fenced(earlier)
    source_ends_are_cut_off(earlier)


def with_proven_facts(procedure: Run, last_known: LastKnown, proven: ProvenFacts) -> LastKnown:
    """Return the last known state with topics, active groups and positions of the earlier run added.

    Positions of groups that the earlier run had fenced replace positions that the flight recorder sampled.
    """
    if proven.procedure_id is None:
        return last_known
    counts = {topic: count for topic, (_, count, _) in last_known.topics.items()}
    topics = {
        topic: (name, max(count, counts.get(topic, 0)), topic_id)
        for topic, (name, count, topic_id) in proven.topics.items()
    }
    positions = _final_positions(last_known.positions, proven.positions)
    return replace(
        last_known,
        # Without a proven fence, topics may have been recreated since the forecast.
        topics=last_known.topics | topics if proven.cut_off else topics | last_known.topics,
        positions=positions,
        active=(last_known.active | proven.active) & frozenset(positions["group"]),
        moving=last_known.moving
        if proven.positions is None
        else last_known.moving - frozenset(proven.positions["group"]),
        missing=(
            *(note for note in last_known.missing if note != NO_POSITION or not len(positions)),
            *proven.doubts,
            *_unfenced_loss(procedure, proven),
        ),
    )


def _final_positions(sampled: pd.DataFrame, frozen: pd.DataFrame | None) -> pd.DataFrame:
    """Return positions of all groups: from `frozen` for the groups in `frozen`, from `sampled` for all others."""
    if frozen is None:
        return sampled
    others = sampled[~sampled["group"].isin(set(frozen["group"]))]
    return (
        pd.concat([frozen[sampled.columns], others], ignore_index=True)
        .astype(sampled.dtypes.to_dict())
        .sort_values(["group", *PARTITION], ignore_index=True)
    )


def _unfenced_loss(procedure: Run, proven: ProvenFacts) -> Iterable[str]:
    if proven.cut_off:
        yield (
            f"the loss does not include records that a super user wrote on {procedure.request.source} after"
            f" {proven.fenced_at}: no ACL stops a super user"
        )


def plan_section(proven: ProvenFacts, drained: int) -> dict[str, Any] | None:
    """Return the plan's section on the continued run and its proofs; None if this run continues no run.

    Args:
        drained: number of partitions that the continued run proved to be drained.
    """
    if proven.procedure_id is None:
        return None
    return {
        "procedure_id": proven.procedure_id,
        "fenced_at": proven.fenced_at,
        "partitions": len(proven.cut_off),
        "drained": drained,
        "positions": None if proven.positions is None else len(proven.positions),
        "missing": sum(missing_range["records"] for ranges in proven.missing.values() for missing_range in ranges),
    }


def epoch_milliseconds(at: str | None) -> int | None:
    """Return an ISO 8601 time as milliseconds since 1970; None for None."""
    return None if at is None else int(datetime.fromisoformat(at).timestamp() * 1000)
