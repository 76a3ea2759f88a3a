"""The plan of a run without its source, whose digest the approval names: what is lost, and what is done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from kafka_dr.domain.canonical_json import digest_of

ROWS_SHOWN = 50


@dataclass(frozen=True)
class LastKnownGroup:
    """One group as it was seen last.

    Attributes:
        position_at: when its oldest position was seen, in milliseconds since 1970; None where nobody knows.
        ahead: partitions on which it had consumed what may never have reached the target.
        rereads: the most records that it may be given again on one partition, as far as known before MirrorMaker 2
            stands; None where nobody knows.
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
    """When the source was seen last, in milliseconds since 1970; None where it was not.

    Attributes:
        recorder: whether there is a flight recorder.
        recorded_at: when it sampled the source for the last time.
        heartbeat_at: when the newest heartbeat that was mirrored had been written.
        read_at: when it was read for the inventory.
        looked_for_at: when the run began to look whether it is lost.
    """

    recorder: bool
    recorded_at: int | None = None
    heartbeat_at: int | None = None
    read_at: int | None = None
    looked_for_at: int | None = None


@dataclass(frozen=True)
class LossPlan:
    """What one run without its source will do.

    Attributes:
        topics: [source name, name on the target, partitions, topic id as last seen].
        opening: ACL entries that will be removed on the target, as text.
        confirmed: how the source was found to be lost, the override's reason if it was not, and how it will be kept
            from its clients.
        inventory: the assessment's figures, its digest among them.
        loss: rows of loss: topic, partition, from_offset, certain_to, possible_to.
        unproven: what the run will not be able to prove.
        continues: the planned run that this one goes on from, and what is taken from it as proven.
        gone: topics that the source had deleted when it was seen last: no part of what moves.
        seen: when the source was seen last, and by whom, in milliseconds since 1970: as of `SourceLastSeen`.
        rereads: `bound`, the most that one position may be given again as far as known before MirrorMaker 2 stands
            (None without any); of how many `positions`; of how many of them `unknown`; how many are of groups that
            `may_have_moved` since.
        cool_down: the cool-down that is not waited for, and why: as in `Plan`.
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

    def as_dict(self) -> dict[str, Any]:
        """The plan as plain JSON data."""
        return asdict(self)

    @property
    def digest(self) -> str:
        """SHA-256 of the plan's canonical JSON."""
        return digest_of(self.as_dict())


def offset_text(offset: int | None, otherwise: str) -> str:
    """An offset, or other words where there is none."""
    return otherwise if offset is None else str(offset)


# -- after the approval --------------------------------------------------------------------------------------------
