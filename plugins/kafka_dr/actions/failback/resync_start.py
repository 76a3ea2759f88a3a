"""The flow back to the returned cluster: where it begins, that it runs, and that it has caught up.

Invariants
1. Offsets are written only while the flow is STOPPED without tasks, and are read back as a whole.
2. A flow that has run since it was told where to begin is not told again: it would copy what it has copied once more.
3. Under identity naming it is resumed only while the flow the other way is STOPPED without tasks.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from kafka_dr.domain.plain_text import first_few
from kafka_dr.domain.readiness.readiness import isolation_of
from kafka_dr.domain.failback.stranded import Mode
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import Contradiction, NotReady, ReadBackFailed, Refusal
from kafka_dr.hooks.journal.journal import JournalEntry
from kafka_dr.actions.failback.stranded_decision import mode_of, require_decided
from kafka_dr.actions.scope.position_frames import frame_partitions, partitions_frame
from kafka_dr.actions.failback.topic_recreation import noted_topics
from kafka_dr.steps.base import ProcedureStep
from kafka_dr.actions.replication.reverse import (
    ReverseCopies,
    copy_of,
    ends_are_noted,
    ends_at_opening,
    mirrored_ends,
    note_ends,
    noted_ends,
    refuse_loop,
)
from kafka_dr.actions.failback.resync_scope import (
    PairJournal,
    failed_over,
    flow_runs,
    names_protect,
    refuse_dedicated,
    refuse_lacking,
    refuse_replaced,
    seeded_by,
    topics_back,
    written_since,
)
from kafka_dr.procedure.authority import acting, record
from kafka_dr.procedure.entries import (
    FlowBackCaughtUp,
    FlowBackSeeded,
    FlowStarted,
    OffsetsToSeed,
    Receipt,
    SourceEndsNoted,
    StrandedRecordsFound,
    TopicsPrepared,
    TopicsToCreate,
    TopicsToDelete,
    facts_of,
)
from kafka_dr.procedure.progress import NotYet
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Entry, Step

#: What stands for an offset that is null: nothing was copied yet.
_NOTHING = -1
#: Last records of the new primary are read again this often at most.
_TAILS_SECONDS = 3.0


@dataclass(frozen=True)
class Told:
    """Where the flow back was told to begin since the failover: by the failover, or by an unfinished failback.

    Attributes:
        replicated: last offset that counts as copied, by partition of the new primary; -1 for none.
        topic_ids: the ids that the topics had on the returned cluster then; one that has another by now was made anew.
        ran: whether it was started since: then its own offsets say how far it is.
    """

    replicated: dict[TopicPartition, int]
    topic_ids: dict[str, str]
    ran: bool


class SeedFlowBack(ProcedureStep):
    """Tell the flow back where to begin: behind what both logs hold already, at the beginning of what was made anew."""

    def act(self, procedure: Run, context: Any) -> FlowBackSeeded:
        """Write differing offsets while STOPPED, and read all back; a flow that ran since the failover goes on."""
        require_decided(procedure)
        refuse_dedicated(procedure)
        prepared = procedure.artifacts.load(procedure.progress.require(TopicsPrepared).prepared)
        flow, told, ids = procedure.flow, told_before(procedure), refuse_lacking(procedure, prepared["topic"])
        worker, name = procedure.systems.connect_worker(flow), flow.connectors.source
        if flow_runs(procedure, flow):
            return self._running(procedure, told, ids)
        now = worker.offsets(name).of(flow.source)
        begin = beginnings(procedure, told, now)
        wanted = {tp: None if last == _NOTHING else last for tp, last in begin.items()} | forgotten(procedure, now)
        changes = {tp: last for tp, last in wanted.items() if now.get(tp) != last}
        record(procedure.authority, self.task_id, OffsetsToSeed(partitions=len(changes)))
        procedure.authority.hold()
        after = worker.change_offsets(name, flow.source, changes)
        refuse_other_offsets(after.of(flow.source), wanted)
        return FlowBackSeeded(
            seeded=len(changes),
            unchanged=len(wanted) - len(changes),
            ran_before=told.ran,
            connector=name,
            other_aliases=sorted(after.aliases - {flow.source}),
            seeds=self._kept(procedure, begin),
            topic_ids=ids,
        )

    def _running(self, procedure: Run, told: Told, ids: dict[str, str]) -> FlowBackSeeded:
        """Accept a running connector only if its start was set or names part directions: it takes no offsets."""
        name = procedure.flow.connectors.source
        if mode_of(procedure) is Mode.RECREATE:
            raise Refusal(
                f"{name} runs, though prepare_topics had stopped it",
                "the topics were made anew since",
                "Find who resumed it: it copies from where it was, not from the beginning. Stop it, and start a new"
                " run.",
            )
        if not (told.ran or names_protect(procedure)):
            raise Refusal(
                f"{name} runs, and nobody knows where it began",
                "no procedure started it since the failover",
                "Stop it, and start a new run with mode recreate: what it has copied cannot be told from what is"
                " there.",
            )
        return FlowBackSeeded(
            seeded=0,
            ran_before=True,
            connector=name,
            why_not=f"{name} runs, and goes on from where it is",
            seeds=self._kept(procedure, {}),
            topic_ids=ids,
        )

    def _kept(self, procedure: Run, begin: dict[TopicPartition, int]) -> Receipt:
        return procedure.artifacts.save("flow_back_seeds", partitions_frame(begin, "replicated"))


def told_before(procedure: Run) -> Told:
    """What the journal says of the flow back since the failover."""
    failover = failed_over(procedure)
    replicated, ids = seeded_by(failover), failover.progress.move().planned.topic_ids
    ran = _started(failover, Step.START_REVERSE_REPLICATION)
    for _, before, seeded in earlier_seeds(procedure, failover):
        replicated |= frame_partitions(before.artifacts.load(seeded.seeds), "replicated")
        ids |= seeded.topic_ids
        ran = ran or _started(before, Step.START_FLOW_BACK)
    return Told(replicated, ids, ran)


def earlier_seeds(procedure: Run, failover: Run) -> list[tuple[JournalEntry, Run, FlowBackSeeded]]:
    """Outcomes of seed_flow_back since the failover in the same direction, this run's own included, oldest first."""
    return PairJournal(procedure).same_way(FlowBackSeeded, Step.SEED_FLOW_BACK, _left_at(failover))


def told_last(procedure: Run) -> int:
    """Sequence of the newest entry that sets the flow back's start: the failover's opening, or an earlier seed."""
    failover = failed_over(procedure)
    return max([_left_at(failover), *(entry.sequence for entry, *_ in earlier_seeds(procedure, failover))])


def _left_at(failover: Run) -> int:
    """Sequence of the entry with which clients left the cluster; -1 without one."""
    opened = failover.journal.last(failover.id, Step.OPEN_TARGET, Entry.INTENT)
    return -1 if opened is None else opened.sequence


def _started(procedure: Run, step: Step) -> bool:
    """Whether a step may have resumed the flow: it began, and did not say that it had nothing to start."""
    started = procedure.progress.facts(FlowStarted, step)
    return started[-1].started if started else procedure.progress.began(step) is not None


def beginnings(procedure: Run, told: Told, now: dict[TopicPartition, int | None]) -> dict[TopicPartition, int]:
    """Last offset that counts as copied, for every partition that the flow back mirrors; -1 for none.

    Args:
        now: what Connect keeps.

    Raises:
        Contradiction: Connect keeps less than the flow had been told, after it ran, or more, though nobody started it.
    """
    infos = procedure.systems.source.topics(topics_back(procedure))
    partitions = [TopicPartition(topic, p) for topic, info in infos.items() for p in info.partitions]
    anew = made_anew(procedure, told)
    at_opening = {} if names_protect(procedure) else ends_at_opening(failed_over(procedure))
    _refuse_cut(procedure, {tp: at_opening[tp] for tp in partitions if tp in at_opening})
    return {
        tp: _NOTHING if tp.topic in anew else _beginning(procedure, told, tp, now.get(tp), at_opening.get(tp, 0) - 1)
        for tp in partitions
    }


def _beginning(procedure: Run, told: Told, tp: TopicPartition, now: int | None, at_opening: int) -> int:
    """One partition's, whose copy is as it was."""
    kept, first = _NOTHING if now is None else now, told.replicated.get(tp)
    if names_protect(procedure) or (told.ran and first is None):
        return kept
    if first is None:
        return at_opening
    if kept == first or (told.ran and kept > first) or (not told.ran and kept < first):
        return max(kept, first)
    seen = f"{tp}: told to begin behind {first}, Connect keeps {kept}"
    raise Contradiction(
        "Nobody knows how far the flow back is",
        seen,
        "It was resumed or changed outside of any procedure, or Connect lost offsets. Start a new run with mode"
        " recreate.",
    )


def _refuse_cut(procedure: Run, at_opening: dict[TopicPartition, int]) -> None:
    """A log of the new primary that ends before it did at the failover is not the one that both clusters share."""
    ends = procedure.systems.source.ends(list(at_opening))
    cut = [f"{tp}: {at_opening[tp]} -> {ends[tp]}" for tp in sorted(at_opening) if ends[tp] < at_opening[tp]]
    if cut:
        raise Contradiction(
            "Logs of the new primary end before they did at the failover",
            first_few(cut),
            "A topic was made anew or cut there: start a new run with mode recreate.",
        )


def made_anew(procedure: Run, told: Told) -> set[str]:
    """New primary topics whose copies were made anew since the flow's start was set: by prepare_topics, or by hand.

    A run that was killed after it had deleted or made them has no outcome; its intents say which they were.
    """
    scope, ids, told_at = topics_back(procedure), topic_ids(procedure), told_last(procedure)
    journal = PairJournal(procedure)
    deleting = journal.same_way(TopicsToDelete, Step.PREPARE_TOPICS, told_at)
    creating = journal.same_way(TopicsToCreate, Step.PREPARE_TOPICS, told_at)
    created = {name for *_, making in creating for name in making.creates_topics}
    noted = [noted_topics(one) or {} for _, one, _ in deleting]
    before = [told.topic_ids, *({name: was.topic_id for name, was in topics.items()} for topics in noted)]
    prepared = facts_of(procedure.journal.entries(step=Step.PREPARE_TOPICS, kind=Entry.OUTCOME), TopicsPrepared)
    made = {
        topic_id
        for entry, done in prepared
        if entry.sequence > told_at and done.recreated.rows
        for topic_id in procedure.require_other(entry.procedure_id).artifacts.load(done.recreated)["topic_id"]
    }
    return {
        topic
        for topic, name in scope.items()
        if name in ids
        and (name in created or ids[name] in made or any(was.get(name, ids[name]) != ids[name] for was in before))
    }


def topic_ids(procedure: Run) -> dict[str, str]:
    """Ids that the topics of the flow back have on the returned cluster now, by their names there."""
    return {
        name: info.topic_id
        for name, info in sorted(procedure.systems.target.topics(topics_back(procedure).values()).items())
    }


def forgotten(procedure: Run, now: dict[TopicPartition, int | None]) -> dict[TopicPartition, int | None]:
    """Null offsets of partitions the new primary lacks: one that is made again is mirrored from its beginning."""
    infos = procedure.systems.source.topics({tp.topic for tp in now})
    return {tp: None for tp in now if tp.topic not in infos or tp.partition not in infos[tp.topic].partitions}


def refuse_other_offsets(found: dict[TopicPartition, int | None], wanted: dict[TopicPartition, int | None]) -> None:
    """What Connect keeps is what was wanted, of every partition that the flow mirrors."""
    wrong = [
        f"{tp}: wanted {last}, found {found.get(tp)}" for tp, last in sorted(wanted.items()) if found.get(tp) != last
    ]
    if wrong:
        raise ReadBackFailed(
            "Connect does not keep the offsets of the flow back",
            first_few(wrong),
            "Find who else changes them; then start a new run.",
        )


class StartFlowBack(ProcedureStep):
    """Resume the flow back, and prove that it copies what follows where it was told to begin, and nothing else."""

    def act(self, procedure: Run, context: Any) -> FlowStarted:
        """Resume both connectors while the reverse flow stands; prove the first copies unless the flow ran before."""
        require_decided(procedure)
        flow, seeded = procedure.flow, procedure.progress.require(FlowBackSeeded)
        worker, seconds = procedure.mirror_maker(flow), procedure.request.deadlines.stop_seconds
        copies = None if seeded.ran_before or names_protect(procedure) else self._copies(procedure, seeded)
        connectors = [flow.connectors.source, flow.connectors.checkpoint]
        for name in connectors:
            refuse_loop(procedure)
            with acting(procedure.authority, partial(worker.stop, name, deadline=seconds)):
                worker.resume(name, deadline=seconds, needs_tasks=False)
        if copies is None:
            note = "it goes on from where it was: nothing to prove"
            return FlowStarted(started=True, connectors=connectors, note=note)
        try:
            flowing = procedure.progress.wait(
                self.task_id, "Records flowing back", copies.flowing, procedure.request.deadlines.verify_seconds
            )
        except Contradiction:
            worker.stop(flow.connectors.source, deadline=seconds)
            raise
        return FlowStarted(started=True, connectors=connectors, partitions_flowing=flowing)

    def _copies(self, procedure: Run, seeded: FlowBackSeeded) -> ReverseCopies:
        """The partitions beside their copies, from where the flow begins on each side."""
        begin = {
            tp: last + 1 for tp, last in frame_partitions(procedure.artifacts.load(seeded.seeds), "replicated").items()
        }
        starts = procedure.systems.source.starts(list(begin))
        since = {tp: max(first, starts[tp]) for tp, first in begin.items()}
        return ReverseCopies(procedure.reversed, procedure.flow, self._ends_before(procedure, list(begin)), since)

    def _ends_before(self, procedure: Run, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Log ends of the returned cluster before the flow's first resume; refuse records added since the search."""
        copies = [copy_of(procedure, procedure.flow, tp) for tp in partitions]
        if not ends_are_noted(procedure, self.task_id):
            ends = mirrored_ends(procedure.reversed, copies)
            self._refuse_written(procedure)
            note_ends(procedure, self.task_id, ends)
        return noted_ends(procedure, self.task_id, copies)

    def _refuse_written(self, procedure: Run) -> None:
        """A record that came since would stand in the log as if it had been replicated: nobody would decide on it."""
        if mode_of(procedure) is Mode.RECREATE:
            return
        found = procedure.progress.require(StrandedRecordsFound)
        seen = frame_partitions(procedure.artifacts.load(found.returned_ends), "offset")
        infos = procedure.systems.target.topics({tp.topic for tp in seen})
        written = written_since(
            procedure,
            {tp: end for tp, end in seen.items() if tp.topic in infos and tp.partition in infos[tp.topic].partitions},
        )
        if written:
            raise Refusal(
                "Records came to the returned cluster since they were looked through",
                first_few(written, separator="; "),
                "The flow back was not started. Find the writer (a super user passes every ACL); then start a new run,"
                " which looks again.",
            )


class WaitForCatchUp(ProcedureStep):
    """Wait until the flow back is so near to what clients write that the drain behind the fence will end in time."""

    expires = True

    def act(self, procedure: Run, context: Any) -> FlowBackCaughtUp:
        """All that the new primary held a short time ago is on the returned cluster."""
        near = Nearness(procedure, self.task_id)
        caught_up = procedure.progress.wait(
            self.task_id, "The flow back catching up", near.look, procedure.request.deadlines.catch_up_seconds
        )
        refuse_replaced(procedure)
        return caught_up


class Nearness:
    """Looks how far the flow back is behind what clients had written at a moment that stands in the journal.

    Connect's own offsets are used, up to a flush old: they say too little, never too much. That suffices here, since
    nobody stands still meanwhile; what is proven record by record is proven behind the fence.
    """

    def __init__(self, procedure: Run, step: str) -> None:
        self._procedure, self._step = procedure, step
        self._tails: dict[TopicPartition, int] = {}
        self._tails_until = 0.0
        # The drain may last so long; half of it is left for what is written while people read the forecast.
        self._allowed = procedure.request.deadlines.zero_lag_seconds / 2

    def look(self) -> FlowBackCaughtUp:
        """Figures, once what was there not long ago has been copied.

        Raises:
            NotYet: with the partitions that are farthest behind.
            NotReady: the flow does not run.
        """
        self._refuse_standing()
        at, ends = self._moment()
        behind = self._behind(ends)
        age = time.time() - at
        if behind:
            worst = sorted(behind.items(), key=lambda item: (-item[1], item[0]))
            told = ", ".join(f"{tp} by {offsets}" for tp, offsets in worst[:5])
            raise NotYet(
                f"{len(behind)} of {len(ends)} partitions are behind what was written {age:.0f} s ago, in offsets:"
                f" {told}"
            )
        if age > self._allowed:
            self._note()
            raise NotYet(f"what was written {age:.0f} s ago is copied; what came since is looked at next")
        return FlowBackCaughtUp(partitions=len(ends), behind_seconds=round(age, 3), allowed_seconds=self._allowed)

    def _refuse_standing(self) -> None:
        flow = self._procedure.flow
        status = self._procedure.mirror_maker(flow).status(flow.connectors.source)
        if "FAILED" in {status.state, *status.tasks.values()} or status.stopped:
            raise NotReady(
                f"{status.name} does not run",
                str(status),
                "Look at its worker's log, restart what failed; then start a new run.",
            )

    def _moment(self) -> tuple[float, dict[TopicPartition, int]]:
        """When the newest look at the new primary's log ends was made in this try, and what it saw."""
        began = self._procedure.progress.clock(self._step)
        noted = [one for one in self._noted() if one[0].at.timestamp() >= began]
        entry, note = noted[-1] if noted else self._note()
        return entry.at.timestamp(), frame_partitions(self._procedure.artifacts.load(note.source_ends), "offset")

    def _noted(self) -> list[tuple[JournalEntry, SourceEndsNoted]]:
        entries = self._procedure.journal.entries(self._procedure.id, self._step, Entry.NOTE)
        return list(facts_of(entries, SourceEndsNoted))

    def _note(self) -> tuple[JournalEntry, SourceEndsNoted]:
        scope = topics_back(self._procedure)
        infos = self._procedure.systems.source.topics(scope)
        ends = self._procedure.systems.source.ends(
            [TopicPartition(topic, p) for topic, info in infos.items() for p in info.partitions]
        )
        kept = self._procedure.artifacts.save("ends_to_catch_up", partitions_frame(ends, "offset"))
        record(self._procedure.authority, self._step, SourceEndsNoted(source_ends=kept))
        return self._noted()[-1]

    def _behind(self, ends: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Partitions with records that are not known to be copied, and by how many offsets they are behind."""
        flow = self._procedure.flow
        worker = self._procedure.mirror_maker(flow)
        replicated = worker.offsets(flow.connectors.source).of(flow.source)
        left = {
            tp: end - 1 - done
            for tp, end in ends.items()
            if end > 0
            for done in (_done(replicated.get(tp)),)
            if done < end - 1
        }
        return self._with_records(left, ends, isolation_of(worker.config(flow.connectors.source)))

    def _with_records(
        self, left: dict[TopicPartition, int], ends: dict[TopicPartition, int], isolation: str
    ) -> dict[TopicPartition, int]:
        """Without those that hold markers only behind what is copied, or nothing at all any more."""
        if left and time.monotonic() >= self._tails_until:
            self._tails, self._tails_until = (
                last_offsets(self._procedure, left, isolation),
                time.monotonic() + _TAILS_SECONDS,
            )
        last = self._tails
        return {tp: offsets for tp, offsets in left.items() if last.get(tp, -1) > ends[tp] - 1 - offsets}


def _done(replicated: int | None) -> int:
    return _NOTHING if replicated is None else replicated


def last_offsets(procedure: Run, partitions: Iterable[TopicPartition], isolation: str) -> dict[TopicPartition, int]:
    """Offset of the last readable record of the new primary by partition; without empty and missing partitions."""
    infos = procedure.systems.source.topics({tp.topic for tp in partitions})
    there = [tp for tp in partitions if tp.topic in infos and tp.partition in infos[tp.topic].partitions]
    tails = procedure.systems.reader(procedure.request.source, isolation).last_records(there)
    return {tp: tail.last.offset for tp, tail in tails.items() if tail.last is not None}
