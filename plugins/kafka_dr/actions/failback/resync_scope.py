"""Shared by a failback's steps: what the flow back mirrors, the failover before it, and refusals."""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import NamedTuple, TypeVar

from kafka_dr.domain.plain_text import first_few
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import Contradiction, DeadlinePassed, NotReady
from kafka_dr.hooks.journal.journal import JournalEntry
from kafka_dr.actions.fencing.acl_fence import cut_off_of
from kafka_dr.actions.readiness.observe import remote_partitions, scope_now
from kafka_dr.actions.scope.position_frames import frame_partitions
from kafka_dr.actions.fencing.stable_log_ends import newest_records
from kafka_dr.actions.replication.stop import STOPPED, stop_flow
from kafka_dr.procedure.entries import (
    EndsNoted,
    Fact,
    FlowBackSeeded,
    ProducersFenced,
    ReverseFlowSeeded,
    SourceReturned,
    StrandedRecordsFound,
    facts_of,
)
from kafka_dr.procedure.run import Run
from kafka_dr.config.settings import Flow
from kafka_dr.vocabulary import Entry, Step

F = TypeVar("F", bound=Fact)

_ASK_SECONDS = 10.0


def names_protect(procedure: Run) -> bool:
    """Whether each direction has topics of its own, so that none has to be told where to begin."""
    return procedure.topology.naming.policy != "identity"


def refuse_dedicated(procedure: Run) -> None:
    """Refuse a pair with a dedicated flow: in dedicated mode no offset can be set, and nothing can be resumed."""
    dedicated = [
        f"{flow.source}->{flow.target}"
        for flow in (procedure.flow, procedure.reverse_flow)
        if flow is not None and flow.connect is None
    ]
    if dedicated:
        raise NotReady(
            f"MirrorMaker 2 of {' and '.join(dedicated)} runs in dedicated mode, without a REST API",
            "a flow that cannot be told where to begin would copy everything again",
            "Run its connectors in a Connect worker, and name that under `connect` in the topology; then start a new"
            " run.",
        )


def failed_over(procedure: Run) -> Run:
    """The procedure that took clients from the returned cluster to the present one, by find_stranded_records.

    Raises:
        Contradiction: the journal does not know it, or it moved clients the other way.
    """
    name = procedure.progress.require(StrandedRecordsFound).after
    found = procedure.other(name)
    ends = (procedure.request.target, procedure.request.source)
    if found is None or (found.request.source, found.request.target) != ends:
        raise Contradiction(
            f"{name} is not the failover that this run goes back from",
            (
                "the journal does not know it"
                if found is None
                else f"it went from {found.request.source} to {found.request.target}"
            ),
            "Look at the journal; start a new run.",
        )
    return found


def moved_clients(procedure: Run) -> list[tuple[JournalEntry, Run]]:
    """Procedures of the pair that opened their target and did not return, each with its opening, oldest first."""
    entries = procedure.journal.entries(step=Step.OPEN_TARGET, kind=Entry.INTENT)
    first = {entry.procedure_id: entry for entry in reversed(entries) if entry.procedure_id != procedure.id}
    known = [(entry, procedure.other(name)) for name, entry in first.items()]
    kept = [
        (entry, one)
        for entry, one in known
        if one is not None and one.pair == procedure.pair and one.progress.done(SourceReturned) is None
    ]
    return sorted(kept, key=lambda both: both[0].sequence)


class PairJournal:
    """Facts of all procedures of the pair, this one included."""

    def __init__(self, procedure: Run) -> None:
        """Nothing is read yet."""
        self._procedure = procedure
        self._known: dict[str, Run | None] = {procedure.id: procedure}

    def facts(
        self, fact: type[F], step: Step, after: int = 0, until: int | None = None
    ) -> list[tuple[JournalEntry, Run, F]]:
        """Facts of a class that a step wrote between two entries, oldest first, with entry and writing procedure."""
        entries = self._procedure.journal.entries(step=step, kind=fact.kind)
        within = [entry for entry in entries if after < entry.sequence and (until is None or entry.sequence < until)]
        return [
            (entry, writer, said)
            for entry, said in facts_of(within, fact)
            if (writer := self._writer(entry.procedure_id)) is not None and writer.pair == self._procedure.pair
        ]

    def same_way(self, fact: type[F], step: Step, after: int | None = None) -> list[tuple[JournalEntry, Run, F]]:
        """As `facts`, of procedures in the same direction; without a number since clients changed sides last."""
        if after is None:
            moved = moved_clients(self._procedure)
            after = moved[-1][0].sequence if moved else 0
        wanted = self._procedure.request
        return [
            told
            for told in self.facts(fact, step, after)
            if (told[1].request.source, told[1].request.target) == (wanted.source, wanted.target)
        ]

    def _writer(self, procedure_id: str) -> Run | None:
        if procedure_id not in self._known:
            self._known[procedure_id] = self._procedure.other(procedure_id)
        return self._known[procedure_id]


def first_noted(notes: Iterable[tuple[int, dict[TopicPartition, int], bool]]) -> tuple[dict[TopicPartition, int], bool]:
    """Ends by the oldest note, and whether any note is whole; what only later notes hold was made by the flow.

    Args:
        notes: the journal's sequence, the ends, and whether these are all that the flow may write to.
    """
    ends: dict[TopicPartition, int] = {}
    newest_first = sorted(notes, key=itemgetter(0), reverse=True)
    for _, noted, whole in newest_first:
        ends = noted if whole else ends | noted
    return ends, any(whole for *_, whole in notes)


class Begun(NamedTuple):
    """Where a flow was told to begin in one partition.

    Attributes:
        replicated: last offset of the source that counts as copied; -1 for none.
        target_end: where the target's log ended at least, when all that counts as copied was there.
    """

    replicated: int
    target_end: int


def told_to_begin(procedure: Run) -> dict[TopicPartition, Begun]:
    """Where the flow was told to begin since clients came to its source; {} where no procedure brought them."""
    moved = moved_clients(procedure)
    if not moved or moved[-1][1].request.target != procedure.request.source:
        return {}
    opened, last = moved[-1]
    if names_protect(procedure):
        return told_apart(procedure, last)
    replicated = seeded_by(last)
    for _, teller, seeded in PairJournal(procedure).facts(FlowBackSeeded, Step.SEED_FLOW_BACK, opened.sequence):
        replicated |= frame_partitions(teller.artifacts.load(seeded.seeds), "replicated")
    ends = _ends_left(procedure, last)
    return {tp: Begun(offset, ends[tp]) for tp, offset in replicated.items() if tp in ends}


def seeded_by(failover: Run) -> dict[TopicPartition, int]:
    """Last offsets that a failover set as copied for the flow from its target; -1 for none."""
    seeded = failover.progress.done(ReverseFlowSeeded)
    if seeded is None or seeded.seeds is None:
        return {}
    return frame_partitions(failover.artifacts.load(seeded.seeds), "replicated")


def told_apart(procedure: Run, last: Run) -> dict[TopicPartition, Begun]:
    """Where the flow was told to begin in clients' own topics, behind what was stranded; {} without seeds or notes."""
    replicated, noted = seeded_by(last), last.progress.facts(EndsNoted, Step.START_REVERSE_REPLICATION)
    if not replicated or not noted:
        return {}
    ends = frame_partitions(last.artifacts.load(noted[0].ends_before), "offset")
    copies = remote_partitions(procedure, replicated)
    return {tp: Begun(offset, ends[copies[tp]]) for tp, offset in replicated.items() if copies[tp] in ends}


def _ends_left(procedure: Run, last: Run) -> dict[TopicPartition, int]:
    """Target offsets below which all had been mirrored when clients left: proven by fence, or found on return."""
    if last.progress.done(ProducersFenced) is not None:
        return cut_off_of(last)
    found = procedure.progress.done(StrandedRecordsFound)
    return {} if found is None else frame_partitions(procedure.artifacts.load(found.frontier), "source_tail")


def topics_back(procedure: Run) -> dict[str, str]:
    """Topics of the new primary that the flow back mirrors -> their names on the returned cluster."""
    return scope_now(procedure, procedure.systems.source.topics())


def partitions_of(procedure: Run, topics: Iterable[str]) -> list[TopicPartition]:
    """All partitions of those of the topics that are on the returned cluster, sorted."""
    infos = procedure.systems.target.topics(sorted(set(topics)))
    return [TopicPartition(topic, p) for topic, info in sorted(infos.items()) for p in sorted(info.partitions)]


def written_since(procedure: Run, ends: dict[TopicPartition, int]) -> list[str]:
    """Partitions of the returned cluster with records above these ends, with the newest; no transaction ends."""
    now = procedure.systems.target.ends(list(ends))
    return newest_records(procedure.reversed, {tp: end for tp, end in ends.items() if now[tp] > end})


def refuse_replaced(procedure: Run) -> None:
    """Topics that the flow back fills are those in which it was told where to begin; no other procedure has told it.

    Raises:
        Contradiction: one was deleted since, by hand or by a process that came too late: what had been copied to it is
            gone.
    """
    seeded = procedure.progress.done(FlowBackSeeded)
    ids = seeded.topic_ids if seeded else {}
    infos = procedure.systems.target.topics(ids) if ids else {}
    other = [name for name, topic_id in sorted(ids.items()) if name not in infos or infos[name].topic_id != topic_id]
    if other:
        told = first_few(other)
        raise Contradiction(
            "Topics of the returned cluster were deleted since the flow back was told where to begin",
            told,
            "Find who deleted them; then start a new run with mode recreate, which copies them whole.",
        )


def refuse_lacking(procedure: Run, prepared: Iterable[str]) -> dict[str, str]:
    """Refuse prepared topics that are gone though the flow back fills them; return ids of all it fills.

    Those that were born since, by clients or for a quarantine, MirrorMaker 2 makes and fills from their beginnings.

    Raises:
        Contradiction: one is gone. MirrorMaker 2 would make it again, and nobody would see that its beginning is not
            copied.
    """
    names = sorted(topics_back(procedure).values())
    infos = procedure.systems.target.topics(names)
    lacking = sorted(set(prepared).intersection(names).difference(infos))
    if lacking:
        told = first_few(lacking)
        raise Contradiction(
            "Topics of the returned cluster are gone since they were prepared",
            told,
            "Find who deleted them; then start a new run, which makes them again.",
        )
    return {name: infos[name].topic_id for name in names if name in infos}


def flow_runs(procedure: Run, flow: Flow) -> bool:
    """Whether a flow's source connector is there and anything but STOPPED without tasks."""
    worker, name = procedure.mirror_maker(flow), flow.connectors.source
    return name in worker.connectors() and not worker.status(name).stopped


def stop_flows(procedure: Run, step: str, flows: Iterable[Flow]) -> dict[str, str]:
    """Have connectors of these flows STOPPED without tasks; states by connector.

    A process that comes too late resumes nothing: a flow that stands does no harm while clients stay where they are.

    Raises:
        DeadlinePassed: some did not stop in time.
    """
    states: dict[str, str] = {}
    for flow in flows:
        procedure.authority.hold()
        states |= stop_flow(procedure.reversed, step, flow, _ASK_SECONDS, procedure.request.deadlines.stop_seconds)
    left = [f"{name}: {state}" for name, state in states.items() if state != STOPPED]
    if left:
        raise DeadlinePassed(
            "MirrorMaker 2 did not stop", "; ".join(left), "Look at its worker's log; then start a new run."
        )
    return states
