"""The plan of an unplanned failover, whose digest the approval names: the loss, and the planned acts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from kafka_dr.domain.canonical_json import digest_of
from kafka_dr.domain.clients.inventory import ClientsOfKind

ROWS_SHOWN = 50
UNSIGNED_SAMPLES = (
    "Loss and positions rest on samples of the recorder that are not signed: whoever can write to its archive may have"
    " changed them."
)


@dataclass(frozen=True)
class LastKnownGroup:
    """One group as the flight recorder last sampled it.

    Attributes:
        partitions: number of source partitions with a position of the group.
        policy: which position the group gets on a partition where no observation gives a position.
        active: whether the group was active when last sampled.
        position_at: sample time of the group's oldest position, in milliseconds since 1970; None if unknown.
        ahead: number of partitions on which the group consumed source records that may not be on the target.
        rereads: largest number of records that the group may read again on one partition, as computed before
            MirrorMaker 2 is stopped; None if unknown.
    """

    group: str
    partitions: int
    policy: str
    active: bool
    position_at: int | None
    ahead: int
    rereads: int | None = None


@dataclass(frozen=True)
class SourceLastSeen:
    """When the source was last observed to work, in milliseconds since 1970; None if an observation does not exist.

    Attributes:
        recorder: whether a flight recorder exists.
        recorded_at: time of the recorder's last sample of the source.
        heartbeat_at: when the newest heartbeat on the target was written on the source.
        read_at: when the source was read for the inventory of lost records.
        looked_for_at: when the run began to check whether the source is lost.
    """

    recorder: bool
    recorded_at: int | None = None
    heartbeat_at: int | None = None
    read_at: int | None = None
    looked_for_at: int | None = None


@dataclass(frozen=True)
class LossPlan:
    """What one unplanned failover will do.

    Attributes:
        topics: per topic: source name, name on the target, number of partitions, last observed topic id on the source.
        opening: ACL entries that will be removed on the target, as text.
        opening_adds: ALLOW entries for User:*, which an earlier fence replaced, that will be added on the target, as
            text.
        denials: entries that will be added on the target so that the old flow writes no more, as text.
        confirmed: how the source was confirmed to be lost, or the override's reason; and how the source will be
            fenced.
        inventory: the figures of the loss assessment, including the assessment's digest.
        loss: rows of loss: topic, partition, from_offset, certain_to, possible_to.
        unproven: what the run will not be able to prove.
        continues: the planned run that this run continues, and what that run has proven; None if no run is continued.
        gone: topics that were already deleted on the source when it was last observed; the run does not move them.
        seen: when the source was last observed to work, with the fields of `SourceLastSeen`.
        rereads: `bound` (the most records that a group may read again on one partition, as computed before
            MirrorMaker 2 is stopped; None if unknown), `positions` (number of all positions), `unknown` (positions
            without a bound), `may_have_moved` (positions of groups that may have committed after the last sample).
        cool_down: the cool-down that is not waited for: the earlier procedure, its outcome and end, the end of the
            cool-down, and the starter's reason; None if no cool-down was running.
        terms: clusters, topology, deadlines and approvers of the run, with the fields of `Terms`.
        warnings: why figures of this plan may be wrong, as sentences.
        objectives: of the flow from source to target, as the topology states them; None if it states none.
        offset_option: of the flow, with the fields of `view_option`; {} for a drill.
        clients: what is known of the source's clients by kind: what the run does with them, and what their owners must
            do.
        flows: what becomes of all flows, and what readers find afterwards, as of `flows_section`.
    """

    procedure_id: str
    dag_id: str
    source: str
    target: str
    reason: str
    naming: str
    connectors: Mapping[str, str]
    topics: tuple[tuple[str, str, int, str | None], ...]
    groups: tuple[LastKnownGroup, ...]
    opening: tuple[str, ...]
    deadlines: Mapping[str, float]
    confirmed: Mapping[str, Any]
    inventory: Mapping[str, Any]
    loss: tuple[Mapping[str, Any], ...]
    unproven: tuple[str, ...] = field(default_factory=tuple)
    continues: Mapping[str, Any] | None = None
    gone: tuple[str, ...] = ()
    seen: Mapping[str, Any] = field(default_factory=lambda: asdict(SourceLastSeen(False)))
    rereads: Mapping[str, Any] | None = None
    cool_down: Mapping[str, Any] | None = None
    opening_adds: tuple[str, ...] = ()
    denials: tuple[str, ...] = ()
    terms: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    objectives: Mapping[str, Any] | None = None
    offset_option: Mapping[str, Any] = field(default_factory=dict)
    clients: tuple[ClientsOfKind, ...] = ()
    flows: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as plain JSON data."""
        return asdict(self)

    @property
    def digest(self) -> str:
        """SHA-256 of the plan's canonical JSON, in hexadecimal; an approval names this digest."""
        return digest_of(self.as_dict())


def offset_text(offset: int | None, otherwise: str) -> str:
    """Return an offset as text, or `otherwise` if the offset is None."""
    return otherwise if offset is None else str(offset)
