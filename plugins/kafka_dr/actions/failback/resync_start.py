"""The flow back to the returned cluster: where it begins, that it runs, and that it has caught up.

Invariants
1. Offsets are written only while the flow is STOPPED without tasks, and are read back as a whole.
2. A flow that has run since it was told where to begin is not told again: it would copy what it has copied once more.
3. Under identity naming it is resumed only while the flow the other way is STOPPED without tasks.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafka_dr.actions.failback.resync_scope import (
    failed_over,
    topics_back,
)
from kafka_dr.actions.failback.topic_recreation import noted_topics
from kafka_dr.actions.history.moves import PairJournal
from kafka_dr.actions.history.seeds import seeded_by
from kafka_dr.actions.replication.reverse import (
    ends_at_opening,
)
from kafka_dr.actions.scope.flow_scope import names_separate_directions
from kafka_dr.actions.scope.position_frames import frame_partitions
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import Contradiction, ReadBackFailed
from kafka_dr.hooks.journal.tables import JournalEntry
from kafka_dr.procedure.entries import (
    FlowBackSeeded,
    FlowStarted,
    TopicsPrepared,
    TopicsToCreate,
    TopicsToDelete,
    facts_of,
)
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Entry, Step

#: What stands for an offset that is null: nothing was copied yet.
NONE_COPIED = -1


@dataclass(frozen=True)
class SeedRecord:
    """Where the flow back was told to begin since the failover: by the failover, or by an unfinished failback.

    Attributes:
        replicated: last offset that counts as copied, by partition of the new primary; -1 for none.
        topic_ids: the ids that the topics had on the returned cluster then; one that has another by now was made anew.
        ran: whether it was started since: then its own offsets say how far it is.
    """

    replicated: dict[TopicPartition, int]
    topic_ids: dict[str, str]
    ran: bool


def seeds_since_failover(procedure: Run) -> SeedRecord:
    """What the journal says of the flow back since the failover."""
    failover = failed_over(procedure)
    replicated, ids = seeded_by(failover), failover.progress.move().planned.topic_ids
    ran = _started(failover, Step.START_REVERSE_REPLICATION)
    for _, before, seeded in earlier_seeds(procedure, failover):
        replicated |= frame_partitions(before.artifacts.load(seeded.seeds), "replicated")
        ids |= seeded.topic_ids
        ran = ran or _started(before, Step.START_FLOW_BACK)
    return SeedRecord(replicated, ids, ran)


def earlier_seeds(procedure: Run, failover: Run) -> list[tuple[JournalEntry, Run, FlowBackSeeded]]:
    """Outcomes of seed_flow_back since the failover in the same direction, this run's own included, oldest first."""
    return PairJournal(procedure).same_way(FlowBackSeeded, Step.SEED_FLOW_BACK, _left_at(failover))


def last_seed_sequence(procedure: Run) -> int:
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


def start_offsets(procedure: Run, told: SeedRecord, now: dict[TopicPartition, int | None]) -> dict[TopicPartition, int]:
    """Last offset that counts as copied, for every partition that the flow back mirrors; -1 for none.

    Args:
        now: what Connect keeps.

    Raises:
        Contradiction: Connect keeps less than the flow had been told, after it ran, or more, though nobody started it.
    """
    infos = procedure.systems.source.topics(topics_back(procedure))
    partitions = [TopicPartition(topic, p) for topic, info in infos.items() for p in info.partitions]
    anew = recreated_topics(procedure, told)
    at_opening = {} if names_separate_directions(procedure) else ends_at_opening(failed_over(procedure))
    _refuse_cut(procedure, {tp: at_opening[tp] for tp in partitions if tp in at_opening})
    return {
        tp: NONE_COPIED if tp.topic in anew else _beginning(procedure, told, tp, now.get(tp), at_opening.get(tp, 0) - 1)
        for tp in partitions
    }


def _beginning(procedure: Run, told: SeedRecord, tp: TopicPartition, now: int | None, at_opening: int) -> int:
    """One partition's, whose copy is as it was."""
    kept, first = NONE_COPIED if now is None else now, told.replicated.get(tp)
    if names_separate_directions(procedure) or (told.ran and first is None):
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


def recreated_topics(procedure: Run, told: SeedRecord) -> set[str]:
    """New primary topics whose copies were made anew since the flow's start was set: by prepare_topics, or by hand.

    A run that was killed after it had deleted or made them has no outcome; its intents say which they were.
    """
    scope, ids, told_at = topics_back(procedure), topic_ids(procedure), last_seed_sequence(procedure)
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


def offsets_to_clear(procedure: Run, now: dict[TopicPartition, int | None]) -> dict[TopicPartition, int | None]:
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
