"""Anchors the journal's entries outside its database, and refuses a journal that lacks or contradicts an anchor.

Invariants
1. An entry is on disk before its anchor is written. A journal behind an anchor has therefore lost entries.
2. Anchors are read before the journal, so that an entry that another process writes meanwhile is no contradiction.
3. A process whose journal loses entries meanwhile, as by a promoted standby, neither acts nor writes any more.
4. A place that does not answer delays a step by `_READ_SECONDS` and an intent by `_WRITTEN_SECONDS` at most.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kafka_dr.domain.anchors import Anchor, Anchored, anchors_that_count, contradicted_anchors, read_anchor
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import Contradiction, SwitchbackError, SystemUnavailable
from kafka_dr.hooks.brokers.anchor_topic import AnchorTopic
from kafka_dr.hooks.journal.chain import NO_HASH
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.hooks.journal.tables import JournalEntry
from kafka_dr.procedure.binding import answering_clusters
from kafka_dr.procedure.entries import AnchorsMissed
from kafka_dr.vocabulary import Entry

if TYPE_CHECKING:
    from kafka_dr.procedure.run import Run

_READ_SECONDS, _WRITTEN_SECONDS = 3.0, 1.0
_ROUTING = "the routing record"


class JournalAnchors:
    """The anchors of one process that acts for a run: on the run's clusters, and in the routing record.

    Attributes:
        unread: place -> why its anchors could not be read by `refuse_contradicted_journal`.
        unwritten: place -> why the last anchor may not have been written there.
        newest: the anchor of the newest entry that this process wrote; None without one.
    """

    def __init__(self, procedure: Run) -> None:
        self._procedure, self._journal = procedure, procedure.journal
        self._generation, self._anchored = 0, anchors_that_count({})
        self._head: tuple[int, str] | None = None
        self.newest: dict[str, Any] | None = None
        self.unread: dict[str, str] = {}
        self.unwritten: dict[str, str] = {}

    @cached_property
    def _topics(self) -> dict[str, AnchorTopic]:
        # A run that was refused for its params may name clusters that the topology does not have.
        aliases = set(answering_clusters(self._procedure)) & set(self._procedure.topology.aliases)
        return {alias: self._procedure.systems.anchor_topic(alias) for alias in sorted(aliases)}

    def refuse_contradicted_journal(self) -> None:
        """Compare the journal with its anchors; from then on, anchor each entry that this process writes.

        From then on the journal also refuses a database without the newest entry that this process has seen.

        Raises:
            Contradiction: the journal's chain of hashes is broken, or lacks an anchored entry, or has another one.
        """
        broken = find_broken_link(self._journal)
        problems = [broken] if broken else self.list_contradictions()
        if problems:
            raise Contradiction(
                "The journal is not the one that was anchored",
                first_few(problems, 20, "; "),
                "Nothing acts under this journal. If its database was promoted or restored without its last entries,"
                " bring the missing entries back from the former database. If it was changed, restore a backup. If"
                " neither can be done, follow runbooks/stuck_procedure.md, The journal lost entries.",
            )
        self._journal.epoch_floors[self._procedure.pair] = self._anchored.epoch(self._procedure.pair)
        self._journal.witness = self.anchor_entry
        self._journal.seen = self._head

    def list_contradictions(self) -> list[str]:
        """Read the anchors, and return which anchored entries the journal lacks or has otherwise; [] if none."""
        anchored = self._read_anchors()
        links = self._journal.links()
        hashes = {sequence: own for sequence, _, own in links if sequence in anchored.sequences}
        self._generation, self._anchored = anchored.generation, anchored
        self._head = (links[-1][0], links[-1][2]) if links else None
        return contradicted_anchors(anchored, links[-1][0] if links else 0, hashes)

    def anchor_entry(self, entry: JournalEntry, accepted: str = "") -> None:
        """Write an entry's anchor to each cluster; for an intent, wait a moment until the clusters have it.

        Args:
            accepted: for an entry with which a person accepts the journal as it is: name and reason.
        """
        anchor = Anchor(
            generation=self._generation,
            sequence=entry.sequence,
            hash=entry.hash,
            pair=self._procedure.pair,
            epoch=entry.epoch,
            procedure_id=entry.procedure_id,
            step=entry.step,
            kind=entry.kind,
            at=entry.at.isoformat(),
            accepted=accepted,
        )
        anchor = replace(anchor, signature=self._procedure.signatures.sign_bytes(anchor.signed_bytes))
        self.newest = asdict(anchor)
        self._journal.seen = entry.sequence, entry.hash
        for topic in self._topics.values():
            topic.write(anchor.pair, anchor.as_bytes())
        if entry.kind == Entry.INTENT:
            self.await_written()

    def begin_generation(self, entry: JournalEntry, accepted: str) -> None:
        """Anchor an entry in a new generation, so that no older anchor counts any more.

        Args:
            accepted: who accepts the journal as it is, and why.

        Raises:
            SystemUnavailable: no cluster took the anchor, so that the older anchors still count.
        """
        self._generation += 1
        self.anchor_entry(entry, accepted)
        self.await_written()
        if set(self._topics) <= set(self.unwritten):
            raise SystemUnavailable(
                "No cluster took the new anchor",
                "; ".join(f"{place}: {why}" for place, why in sorted(self.unwritten.items())),
                "Repeat the command when a cluster answers.",
            )

    def await_written(self) -> None:
        """Wait a moment until the anchors are written; `unwritten` then names the places that did not take them."""
        self.unwritten = {}
        with ThreadPoolExecutor(max(1, len(self._topics))) as pool:
            waits = {place: pool.submit(topic.await_written, _WRITTEN_SECONDS) for place, topic in self._topics.items()}
        for place, wait in waits.items():
            try:
                wait.result()
            except SwitchbackError as error:
                self.unwritten[place] = str(error)

    def list_missed(self) -> AnchorsMissed | None:
        """Return which places lack anchors of this process, or could not be compared; None if none."""
        if self.newest is not None:
            self.await_written()
        if not self.unread and not self.unwritten:
            return None
        anchored_on = set(self._topics) - set(self.unread) - set(self.unwritten)
        return AnchorsMissed(unread=self.unread, unwritten=self.unwritten, anchored_on=sorted(anchored_on))

    def _read_anchors(self) -> Anchored:
        reads = {alias: topic.newest for alias, topic in self._topics.items()}
        reads[_ROUTING] = self._procedure.systems.routing.anchors
        with ThreadPoolExecutor(len(reads)) as pool:
            answers = {place: pool.submit(read, _READ_SECONDS) for place, read in reads.items()}
        found: dict[str, list[Anchor]] = {}
        for place, answer in answers.items():
            try:
                found[place] = [anchor for value in answer.result() if (anchor := read_anchor(value))]
            except SwitchbackError as error:
                self.unread[place] = str(error)
        return anchors_that_count({place: filter(self._may_count, anchors) for place, anchors in found.items()})

    def _may_count(self, anchor: Anchor) -> bool:
        """Whether an anchor counts: an acceptance only with the journal's signature, if the topology names its key."""
        signatures = self._procedure.signatures
        if anchor.generation == 0 or not signatures.public_keys:
            return True
        return signatures.has_signed(anchor.signed_bytes, anchor.signature)


def find_broken_link(journal: Journal) -> str:
    """Return where the journal's chain of hashes is broken, as text; empty for a whole chain."""
    expected, previous = 1, NO_HASH
    for sequence, before, own in journal.links():
        if sequence != expected or before != previous:
            return f"entry {expected} is missing, or its hash does not follow the entry before"
        expected, previous = expected + 1, own
    return ""
