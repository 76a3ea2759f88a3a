"""Determine the start offsets of the flow back (new primary -> returned cluster).

Invariants
1. Offsets are written only while the flow back is STOPPED without tasks, and all of them are read back.
2. A flow that has run after its start was seeded is not set back to the seeded offset, because it would mirror
   records twice.
3. Under identity naming the flow back is resumed only while the opposite flow is STOPPED without tasks.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafka_dr.actions.failback.resync_scope import failed_over, topics_back
from kafka_dr.actions.failback.topic_recreation import noted_topics
from kafka_dr.actions.history.moves import PairJournal
from kafka_dr.actions.history.seeds import seeded_by
from kafka_dr.actions.replication.reverse import ends_at_opening
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

#: "Last offset that counts as copied" of a partition of which nothing is copied; Connect stores null for it.
NONE_COPIED = -1


@dataclass(frozen=True)
class SeedRecord:
    """The flow back's start offsets as seeded by the failover, and by runs of the failback after the failover.

    Attributes:
        replicated: partition of the new primary -> last offset that counts as copied; -1 for none.
        topic_ids: topic of the returned cluster -> its id when seeded; a topic with another id now was recreated.
        ran: whether the flow may have run after a seed; only then can Connect's offsets be above the seeded offsets.
    """

    replicated: dict[TopicPartition, int]
    topic_ids: dict[str, str]
    ran: bool


def seeds_since_failover(procedure: Run) -> SeedRecord:
    """Return, from the journal, how the failover and later failback runs seeded the flow back.

    If a partition was seeded several times, the newest seeded offset counts.
    """
    failover = failed_over(procedure)
    replicated, ids = seeded_by(failover), failover.progress.moved_topic_ids()
    ran = _started(failover, Step.START_REVERSE_REPLICATION)
    for _, earlier, seeded in earlier_seeds(procedure, failover):
        replicated |= frame_partitions(earlier.artifacts.load(seeded.seeds), "replicated")
        ids |= seeded.topic_ids
        ran = ran or _started(earlier, Step.START_FLOW_BACK)
    return SeedRecord(replicated, ids, ran)


def earlier_seeds(procedure: Run, failover: Run) -> list[tuple[JournalEntry, Run, FlowBackSeeded]]:
    """Return outcomes of seed_flow_back after the failover, oldest first, of this run and earlier failback runs."""
    return PairJournal(procedure).same_way(FlowBackSeeded, Step.SEED_FLOW_BACK, _opened_at(failover))


def last_seed_sequence(procedure: Run) -> int:
    """Return the sequence number of the newest outcome of seed_flow_back since the failover.

    Without such an outcome, return the sequence number of the failover's open_target intent.
    """
    failover = failed_over(procedure)
    return max([_opened_at(failover), *(entry.sequence for entry, *_ in earlier_seeds(procedure, failover))])


def _opened_at(failover: Run) -> int:
    """Return the journal sequence of the failover's open_target intent; -1 without an intent."""
    opened = failover.journal.last(failover.id, Step.OPEN_TARGET, Entry.INTENT)
    return -1 if opened is None else opened.sequence


def _started(procedure: Run, step: Step) -> bool:
    """Whether the step started the flow, by its outcome; without an outcome, whether the step began."""
    started = procedure.progress.facts(FlowStarted, step)
    return started[-1].started if started else procedure.progress.began(step) is not None


def start_offsets(
    procedure: Run, seeds: SeedRecord, now: dict[TopicPartition, int | None]
) -> dict[TopicPartition, int]:
    """Return partition of the new primary -> last offset that counts as copied to the returned cluster; -1 if none.

    Args:
        now: the flow back's offsets that Connect stores.

    Raises:
        Contradiction: Connect's offset is below the seeded offset though the flow ran, or above the seeded offset
            though no procedure started the flow; or a log of the new primary ends below its log end at the failover.
    """
    infos = procedure.systems.source.topics(topics_back(procedure))
    partitions = [TopicPartition(topic, p) for topic, info in infos.items() for p in info.partitions]
    recreated = recreated_topics(procedure, seeds)
    at_opening = {} if names_separate_directions(procedure) else ends_at_opening(failed_over(procedure))
    _refuse_cut(procedure, {tp: at_opening[tp] for tp in partitions if tp in at_opening})
    return {
        tp: NONE_COPIED
        if tp.topic in recreated
        else _start_offset(procedure, seeds, tp, now.get(tp), at_opening.get(tp, 0) - 1)
        for tp in partitions
    }


def _start_offset(procedure: Run, seeds: SeedRecord, tp: TopicPartition, now: int | None, at_opening: int) -> int:
    """Return the last offset of a partition of the new primary that counts as copied; -1 if none does.

    The copy on the returned cluster must not have been recreated.

    Args:
        now: the offset that Connect stores for the partition; None for null.
        at_opening: last offset of the partition when the failover opened the new primary to clients.
    """
    in_connect, seed = NONE_COPIED if now is None else now, seeds.replicated.get(tp)
    if names_separate_directions(procedure) or (seeds.ran and seed is None):
        return in_connect
    if seed is None:
        return at_opening
    if in_connect == seed or (seeds.ran and in_connect > seed) or (not seeds.ran and in_connect < seed):
        return max(in_connect, seed)
    detail = f"{procedure.request.source}, {tp}: seeded with offset {seed}, Connect stores offset {in_connect}"
    raise Contradiction(
        "How far the flow back has copied is unknown",
        detail,
        "The flow back was resumed or changed outside of any procedure, or Connect lost offsets. This try changed no"
        " offset. Start a new run with mode recreate: after an export of the stranded records and an approval, that run"
        f" deletes and recreates the flow's topics on {procedure.request.target}.",
    )


def _refuse_cut(procedure: Run, at_opening: dict[TopicPartition, int]) -> None:
    """Refuse if a log of the new primary ends below its log end at the failover (recreated or truncated).

    Args:
        at_opening: partition of the new primary -> log end when the failover opened the new primary to clients.
    """
    ends = procedure.systems.source.ends(list(at_opening))
    cut = [
        f"{tp}: {at_opening[tp]} at the failover, {ends[tp]} now"
        for tp in sorted(at_opening)
        if ends[tp] < at_opening[tp]
    ]
    if cut:
        raise Contradiction(
            "Log ends of the new primary are lower than at the failover",
            first_few(cut),
            f"These topics were recreated or truncated on {procedure.request.source}. Start a new run with mode"
            " recreate: after an export of the stranded records and an approval, that run deletes and recreates the"
            f" flow's topics on {procedure.request.target}.",
        )


def recreated_topics(procedure: Run, seeds: SeedRecord) -> set[str]:
    """Return topics of the new primary whose copies were recreated after the last seed, by a run or manually.

    A run that was killed after it had deleted or created topics has no outcome, but its intents list the topics.
    """
    scope, ids, seeded_at = topics_back(procedure), topic_ids(procedure), last_seed_sequence(procedure)
    journal = PairJournal(procedure)
    deleting = journal.same_way(TopicsToDelete, Step.PREPARE_TOPICS, seeded_at)
    creating = journal.same_way(TopicsToCreate, Step.PREPARE_TOPICS, seeded_at)
    created = {name for *_, intent in creating for name in intent.creates_topics}
    noted_before = [noted_topics(run) or {} for _, run, _ in deleting]
    earlier_ids = [
        seeds.topic_ids,
        *({name: before.topic_id for name, before in topics.items()} for topics in noted_before),
    ]
    outcomes = facts_of(procedure.journal.entries(step=Step.PREPARE_TOPICS, kind=Entry.OUTCOME), TopicsPrepared)
    recreated_ids = {
        topic_id
        for entry, outcome in outcomes
        if entry.sequence > seeded_at and outcome.recreated.rows
        for topic_id in procedure.require_other(entry.procedure_id).artifacts.load(outcome.recreated)["topic_id"]
    }
    return {
        topic
        for topic, name in scope.items()
        if name in ids
        and (
            name in created
            or ids[name] in recreated_ids
            or any(earlier.get(name, ids[name]) != ids[name] for earlier in earlier_ids)
        )
    }


def topic_ids(procedure: Run) -> dict[str, str]:
    """Return topic of the returned cluster that the flow back fills -> current id; missing topics are left out."""
    return {
        name: info.topic_id
        for name, info in sorted(procedure.systems.target.topics(topics_back(procedure).values()).items())
    }


def offsets_to_clear(procedure: Run, now: dict[TopicPartition, int | None]) -> dict[TopicPartition, int | None]:
    """Return a null offset for each partition that has an offset in Connect and does not exist on the new primary.

    A topic that is created later under the same name is then mirrored from its beginning.

    Args:
        now: the flow back's offsets that Connect stores.
    """
    infos = procedure.systems.source.topics({tp.topic for tp in now})
    return {tp: None for tp in now if tp.topic not in infos or tp.partition not in infos[tp.topic].partitions}


def refuse_other_offsets(
    connector: str, stored: dict[TopicPartition, int | None], wanted: dict[TopicPartition, int | None]
) -> None:
    """Refuse unless Connect stores the wanted offset of every partition of the new primary in `wanted`.

    Args:
        connector: the flow back's source connector, whose offsets these are.
    """
    wrong = [
        f"{tp}: {offset} was written, {stored.get(tp)} was read back"
        for tp, offset in sorted(wanted.items())
        if stored.get(tp) != offset
    ]
    if wrong:
        raise ReadBackFailed(
            "Connect does not store the flow back's offsets as they were written",
            f"{connector}: {first_few(wrong)}",
            f"The flow back was not resumed. Find out which user or tool changes offsets of {connector} in Connect."
            " Then start a new run, which writes the offsets again.",
        )
