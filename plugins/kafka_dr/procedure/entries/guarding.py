"""Facts that the watcher writes about the last move of clients, which it guards, and about markers.

Times are ISO 8601 UTC.

A marker is a connector or an ACL entry that only the watcher sets; whoever changes it owns what stands beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafka_dr.domain.kafka_model.acl import AclEntry
from kafka_dr.procedure.entries.fact import Intent, Note, OrAbsent, StepOutcome, WatchedFact
from kafka_dr.procedure.entries.records import Figures, Receipt
from kafka_dr.vocabulary import Step


class ReturnedBrokersProbed(Note, WatchedFact, steps=(Step.WATCH_OLD_SOURCE,)):
    """Brokers that were not live when a fence was proven, and that answered the probe's write after their return.

    Attributes:
        returned_refusing: ids of brokers that refused the write for lack of rights: the fence holds there, too.
        returned_accepting: ids of brokers that accepted the write.
        probed_at: when they answered.
    """

    returned_refusing: Sequence[int]
    returned_accepting: Sequence[int]
    probed_at: str


class LoopStopped(Note, WatchedFact, steps=(Step.WATCH_OLD_SOURCE,)):
    """Two flows copied the same topics in a circle; the watcher asked for the stop of one of these flows.

    Attributes:
        both_flows_run: which flow (`flow`), its states after the request to stop (`stopped`), and when both flows were
            seen to run (`seen_at`).
    """

    both_flows_run: Figures


class EntriesToRestore(Intent, WatchedFact, steps=(Step.WATCH_OLD_SOURCE,)):
    """ACL entries that somebody changed after clients had left, about to be set again as the procedure had set them.

    Attributes:
        restores_acl_entries: entries that were removed, about to be added again on `cluster`.
        removes_again: entries that were added again, about to be removed.
    """

    restores_acl_entries: Sequence[AclEntry]
    removes_again: Sequence[AclEntry]
    cluster: str


class MoveDefended(Note, WatchedFact, steps=(Step.WATCH_OLD_SOURCE,)):
    """Somebody undid what a procedure had done to move clients, and the watcher did it again, once.

    Attributes:
        undone: what the watcher saw, as text.
        states: state by connector after the request to stop; for a flow that could not be stopped, the reason.
        not_restored: what could not be done again, as text.
        copied: by partition, source records that the old flow copied meanwhile, as text.
        seeds: receipt of the offsets to which the old flow was set, so that it copies nothing back; None if it was not.
    """

    undone: Sequence[str]
    seen_at: str
    states: Mapping[str, str]
    not_restored: Sequence[str]
    copied: Sequence[str] = ()
    seeds: OrAbsent[Receipt] = None


class MoveContested(Note, WatchedFact, steps=(Step.WATCH_OLD_SOURCE,)):
    """Somebody undid it a second time within ten minutes: the watcher acts no more on this pair of clusters.

    Attributes:
        contested: what the watcher saw, as text.
        contested_at: when the watcher saw it.
    """

    contested: Sequence[str]
    contested_at: str


class RecordsPassed(Note, WatchedFact, steps=(Step.WATCH_OLD_SOURCE,)):
    """What a contested pair of clusters took in that the procedure had excluded, when the watcher gave up.

    Attributes:
        passed_boundary: by partition, source records that the old flow copied after it was stopped, as text.
        passed_cut_off: by partition, records that the old source took in after its cut-off, as text.
        not_read: why a part of the list is missing.
    """

    passed_boundary: Sequence[str]
    passed_cut_off: Sequence[str]
    not_read: Sequence[str]


class MarkerToKeep(Intent, steps=(Step.WATCH_OLD_SOURCE,)):
    """A marker that the watcher is about to set, and to set again whenever somebody else changes it; its place."""

    keeps_marker: str


class MarkerKept(StepOutcome, steps=(Step.WATCH_OLD_SOURCE,)):
    """A marker was set and read back for the first time; its place."""

    marker_kept: str


class MarkerDisturbed(Note, steps=(Step.WATCH_OLD_SOURCE,)):
    """Somebody else changed or removed a marker, after a time in which nobody had done so.

    While it goes on, the journal's sign of life of the marker's place has the last time.

    Attributes:
        marker_disturbed: the marker's place.
        disturbance: what was seen, as text.
        acl_entries: whether the marker is an ACL entry; else it is a connector.
    """

    marker_disturbed: str
    disturbance: str
    acl_entries: bool
