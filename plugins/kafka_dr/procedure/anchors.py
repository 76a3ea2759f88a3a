"""Anchors the journal's entries outside its database, and refuses a journal that lacks or contradicts an anchor.

Invariants
1. An entry is on disk before its anchor is written. A journal behind an anchor has therefore lost entries.
2. Anchors are read before the journal, so that an entry that another process writes meanwhile is no contradiction.
3. A place that does not answer delays a step by `_READ_SECONDS` and an intent by `_WRITTEN_SECONDS` at most.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from kafka_dr.concurrently import run_in_background
from kafka_dr.config.topology import name_pair
from kafka_dr.domain.anchors import Anchor, Anchored, anchors_that_count, contradicted_anchors, read_anchor
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import Contradiction, SwitchbackError, SystemUnavailable
from kafka_dr.hooks.brokers.anchor_topic import AnchorTopic
from kafka_dr.hooks.journal.chain import NO_HASH
from kafka_dr.hooks.journal.tables import JournalEntry
from kafka_dr.procedure.binding import answering_clusters, clusters_to_answer
from kafka_dr.procedure.entries import AnchorsMissed, ProcedureOpened, facts_in
from kafka_dr.procedures import lease_name
from kafka_dr.vocabulary import JOURNAL_TOPIC, Entry, Step

if TYPE_CHECKING:
    from kafka_dr.procedure.run import Run

_READ_SECONDS, _WRITTEN_SECONDS = 3.0, 1.0
_ROUTING = "the routing record"
_NO_ANCHORS = (
    f"its topic {JOURNAL_TOPIC} has no anchor of this journal that counts, although earlier runs wrote anchors there:"
    " the topic was deleted, or other people filled it"
)
#: Kind of an anchor that names no entry, but the epoch of a lease.
_LEASE = "lease"


class JournalAnchors:
    """The anchors of one process that acts for a run: on the run's clusters, and in the routing record.

    Attributes:
        unread: place -> why its anchors could not be compared with the journal.
        unwritten: place -> why the last anchor may not have been written there, or does not count.
        newest: the anchor of the newest entry that this process wrote; None without one.
    """

    def __init__(self, procedure: Run) -> None:
        self._procedure, self._journal = procedure, procedure.journal
        self._anchored = anchors_that_count({}, frozenset())
        self._generation = 0
        self._head: tuple[int, str] | None = None
        self._topics: dict[str, AnchorTopic] = {}
        self.newest: dict[str, Any] | None = None
        self.unread: dict[str, str] = {}
        self.unwritten: dict[str, str] = {}

    @property
    def _aliases(self) -> list[str]:
        # A run that was refused for its params may name clusters that the topology does not have.
        return sorted(set(answering_clusters(self._procedure)) & set(self._procedure.topology.aliases))

    def _topic(self, alias: str) -> AnchorTopic:
        if alias not in self._topics:
            self._topics[alias] = self._procedure.systems.anchor_topic(alias)
        return self._topics[alias]

    def refuse_contradicted_journal(self) -> None:
        """Compare the journal with its anchors; from then on, anchor each lease and entry of this process.

        From then on the journal also refuses a database without the newest entry that this process has seen.

        Raises:
            Contradiction: the journal's chain of hashes is broken, or lacks an anchored entry, or has another one.
        """
        problems = self.list_contradictions()
        if problems:
            raise Contradiction(
                "The journal is not the one that was anchored",
                first_few(problems, 20, "; "),
                "Nothing acts under this journal. If its database was promoted or restored without its last entries,"
                " bring the missing entries back from the former database. If it was changed, restore a backup. If"
                " neither can be done, follow runbooks/stuck_procedure.md, The journal lost entries.",
            )
        self._journal.epoch_floors[self._procedure.pair] = self._anchored.newest_epoch
        self._journal.witness, self._journal.lease_witness = self.anchor_entry, self._anchor_lease
        self._journal.seen = self._head

    def list_contradictions(self) -> list[str]:
        """Read the anchors; return what the journal lacks or has otherwise, or where its chain breaks; [] if none."""
        self._anchored = self._read_anchors()
        self._generation = self._anchored.generation
        links = self._journal.links()
        if broken := find_broken_link(links):
            return [broken]
        self._head = (links[-1][0], links[-1][2]) if links else None
        hashes = {sequence: own for sequence, _, own in links if sequence in self._anchored.sequences}
        return contradicted_anchors(self._anchored, len(links), hashes)

    def anchor_entry(self, entry: JournalEntry, accepted: str = "") -> None:
        """Write an entry's anchor to each cluster; for an intent, wait a moment until the clusters have it.

        Args:
            accepted: for an entry with which a person accepts the journal as it is: name and reason.
        """
        epoch = max(entry.epoch, self._anchored.newest_epoch) if accepted else entry.epoch
        named = {"procedure_id": entry.procedure_id, "step": entry.step, "kind": entry.kind}
        anchor = self._anchor(entry.sequence, entry.hash, epoch, entry.at.isoformat(), accepted=accepted, **named)
        self.newest = asdict(anchor)
        self._journal.seen = entry.sequence, entry.hash
        self._write(anchor)
        if entry.kind == Entry.INTENT:
            self.await_written()

    def _anchor_lease(self, pair: str, epoch: int) -> None:
        if pair == self._procedure.pair:
            now = self._journal.now().isoformat()
            self._write(self._anchor(0, "", epoch, now, procedure_id=self._procedure.id, step="", kind=_LEASE))

    def _anchor(self, sequence: int, digest: str, epoch: int, at: str, **named: str) -> Anchor:
        anchor = Anchor(self._generation, sequence, digest, self._procedure.pair, epoch, at=at, **named)
        return replace(anchor, signature=self._procedure.signatures.sign_bytes(anchor.signed_bytes))

    def _write(self, anchor: Anchor) -> None:
        for alias in self._aliases:
            try:
                self._topic(alias).write(anchor.pair, anchor.as_bytes())
            except SwitchbackError as error:
                self.unwritten[alias] = str(error)

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
        if set(self._aliases) <= set(self.unwritten):
            raise SystemUnavailable(
                "No cluster took the new anchor",
                "; ".join(f"{place}: {why}" for place, why in sorted(self.unwritten.items())),
                "Repeat the command when a cluster answers.",
            )

    def await_written(self) -> None:
        """Wait a moment until the anchors are written; `unwritten` then names the places that did not take them."""
        waits = {alias: partial(topic.await_written, _WRITTEN_SECONDS) for alias, topic in self._topics.items()}
        _, self.unwritten = _ask_all(waits, _WRITTEN_SECONDS)
        unsigned = self._procedure.signatures.unsigned_because
        if unsigned and self.newest is not None:
            self.unwritten = dict.fromkeys(self._aliases, f"the anchor is not signed, and does not count: {unsigned}")

    def list_missed(self) -> AnchorsMissed | None:
        """Return which places lack anchors of this process, or could not be compared; None if none."""
        if self.newest is not None:
            self.await_written()
        if not self.unread and not self.unwritten:
            return None
        anchored_on = set(self._aliases) - set(self.unread) - set(self.unwritten)
        return AnchorsMissed(unread=self.unread, unwritten=self.unwritten, anchored_on=sorted(anchored_on))

    def _read_anchors(self) -> Anchored:
        reads = {alias: partial(self._read_topic, alias) for alias in self._aliases}
        reads[_ROUTING] = partial(self._read_routing)
        found, self.unread = _ask_all(reads, _READ_SECONDS)
        for alias in self._aliases:
            if found.get(alias) == [] and self._was_anchored_on(alias):
                self.unread[alias] = _NO_ANCHORS
        return anchors_that_count(found, frozenset(self._aliases))

    @property
    def _pair(self) -> str:
        # Not the run's `pair`: a run that was refused for its params may name clusters that the topology does not have.
        request = self._procedure.request
        return lease_name(self._procedure.identity.dag_id, name_pair(request.source, request.target))

    def _was_anchored_on(self, alias: str) -> bool:
        """Whether the cluster should have anchors: whether a run of this pair, to which it had to answer, has begun."""
        openings = facts_in(self._journal.entries_of_steps([Step.OPEN_PROCEDURE]), ProcedureOpened)
        return any(
            run.binding is not None
            and lease_name(run.dag_id, name_pair(run.source, run.target)) == self._pair
            and alias in clusters_to_answer(run.dag_id, run.source, run.target)
            for run in openings
        )

    def _read_topic(self, alias: str) -> list[Anchor]:
        return self._topic(alias).newest(self._counted, _READ_SECONDS)

    def _read_routing(self) -> list[Anchor]:
        anchors = map(self._counted, self._procedure.systems.routing.anchors(_READ_SECONDS))
        return [anchor for anchor in anchors if anchor is not None]

    def _counted(self, value: Any) -> Anchor | None:
        """Return an anchor of the run's clusters that, if the topology names the journal's key, is signed by it.

        Other pairs of clusters may have a journal of their own.
        """
        anchor, signatures = read_anchor(value), self._procedure.signatures
        if anchor is None or anchor.pair != self._pair:
            return None
        signed = not signatures.public_keys or signatures.has_signed(anchor.signed_bytes, anchor.signature)
        return anchor if signed else None


def _ask_all(calls: Mapping[str, Callable[[], Any]], seconds: float) -> tuple[dict[str, Any], dict[str, str]]:
    """Make all calls at once; return place -> answer, and place -> why there is no answer after so many seconds.

    A call that hangs is left behind.
    """
    answers, failures = {}, {}
    # A little longer than the calls' own limits, whose errors say more.
    for place, future in {place: run_in_background(call) for place, call in calls.items()}.items():
        try:
            answers[place] = future.result(seconds + 1.0)
        except SwitchbackError as error:
            failures[place] = str(error)
        except FutureTimeout:
            failures[place] = f"no answer in {seconds:g} s"
    return answers, failures


def find_broken_link(links: list[tuple[int, str, str]]) -> str:
    """Return where a chain of hashes is broken, as text; empty for a whole chain.

    Args:
        links: as of `Journal.links`.
    """
    expected, previous = 1, NO_HASH
    for sequence, before, own in links:
        if sequence != expected or before != previous:
            return f"entry {expected} is missing, or its hash does not follow the entry before"
        expected, previous = expected + 1, own
    return ""
