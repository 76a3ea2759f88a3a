"""Build the plan of an unplanned failover, which the approver of the loss approves."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any

import pandas as pd

from kafka_dr.actions.clients import Opening, opening_of
from kafka_dr.actions.fencing.rules import target_rules
from kafka_dr.actions.loss.last_known_state import LastKnown
from kafka_dr.actions.old_source.armed_fence import expected_fence_method
from kafka_dr.actions.scope.flow_scope import flows_of_move
from kafka_dr.actions.scope.offset_option import option_of
from kafka_dr.domain.clients.inventory import ClientsOfKind, SeenClients, list_recorded_clients
from kafka_dr.domain.fencing.fence import FenceScope, client_principals
from kafka_dr.domain.kafka_model.groups import ListedGroup
from kafka_dr.domain.loss.loss_plan import UNSIGNED_SAMPLES, LastKnownGroup, LossPlan, SourceLastSeen
from kafka_dr.domain.plain_text import count_of
from kafka_dr.procedure.binding import terms_of
from kafka_dr.procedure.entries import SourceConfirmedLost
from kafka_dr.procedure.run import Run

_INVENTORY = (
    "partitions",
    "losing",
    "unknown",
    "unread",
    "certain",
    "possible",
    "records",
    "bytes",
    "first_at",
    "last_at",
    "aborted",
    "undecided",
    "records_per_second",
    "groups_ahead",
    "positions_ahead",
)
_PARTITION = ["topic", "partition"]
_OFFSETS = ["from_offset", "certain_to", "possible_to"]
_LOSS = [*_PARTITION, *_OFFSETS, "written_since", "written_before", "records", "evidence"]


def plan_of(
    procedure: Run,
    last_known: LastKnown,
    summary: dict[str, Any],
    loss: pd.DataFrame,
    ahead: pd.DataFrame,
    last_seen: SourceLastSeen,
    continues: dict[str, Any] | None = None,
) -> LossPlan:
    """Return the plan: lost records, groups and topics that move, and ACL entries to remove on the target.

    Args:
        summary: figures of the loss assessment's job.
        loss: the lost records, one row per range of offsets of a source partition.
        ahead: groups' positions on the source that lie above all records that the target has, one row each.
        continues: the plan's section on the planned run that this run continues; None if it continues none.
    """
    confirmed, recorded = procedure.progress.require(SourceConfirmedLost), last_known.recorded
    opening = opening_without_source(procedure, last_known.topics, last_known.positions["group"].unique())
    window = f"{count_of(confirmed.verdict.rounds, 'round')} in {confirmed.window_seconds:.0f} s"
    return LossPlan(
        procedure_id=procedure.id,
        dag_id=procedure.identity.dag_id,
        source=procedure.request.source,
        target=procedure.request.target,
        reason=procedure.request.reason,
        naming=procedure.topology.naming.policy,
        connectors=procedure.flow.connectors.by_kind,
        topics=tuple(
            (topic, name, count, topic_id) for topic, (name, count, topic_id) in sorted(last_known.topics.items())
        ),
        groups=groups_of(procedure, last_known, ahead),
        opening=tuple(map(str, opening.removes)),
        opening_adds=tuple(map(str, opening.grants)),
        denials=tuple(map(str, opening.denials)),
        deadlines=procedure.request.deadlines.model_dump(),
        confirmed={
            "state": confirmed.state,
            "window": window,
            "override": confirmed.override if confirmed.overridden else None,
            "fence": expected_fence_method(procedure),
        },
        inventory={"digest": summary["digest"], **{name: summary[name] for name in _INVENTORY}},
        loss=tuple(json.loads(with_written_before(loss, recorded.floors)[_LOSS].to_json(orient="records"))),
        unproven=last_known.missing,
        continues=continues,
        gone=last_known.gone,
        seen=asdict(last_seen),
        cool_down=procedure.progress.cool_down,
        terms=terms_of(procedure),
        objectives=procedure.progress.objectives,
        offset_option=option_of(procedure, None),
        clients=recorded_clients(procedure, last_known),
        flows=flows_of_move(
            procedure, True, zip(last_known.positions["group"], last_known.positions["topic"], strict=True)
        ),
        warnings=(UNSIGNED_SAMPLES,) if recorded.last_at is not None and not recorded.signed else (),
    )


def not_exported(procedure: Run, summary: dict[str, Any]) -> tuple[str, ...]:
    """Return a sentence on lost records that are in no file, because the store did not take them; () without any.

    Args:
        summary: figures of the loss assessment's job.
    """
    partitions = summary["not_exported"]
    if not partitions:
        return ()
    said = (
        f"Lost records of {count_of(partitions, 'partition')} are listed by their offsets, and not exported: the store"
        f" did not take the files. {procedure.request.source} still has the records; failback exports them before it"
        " changes anything there"
    )
    return (said,)


def recorded_clients(procedure: Run, last_known: LastKnown) -> tuple[ClientsOfKind, ...]:
    """Return what the recorder has recorded of the source's clients, by kind, and what it has not."""
    groups = frozenset(map(str, last_known.positions["group"].unique()))
    return list_recorded_clients(
        SeenClients(
            groups=dict.fromkeys(groups, ListedGroup("consumer")),
            moved=groups,
            topics={topic: name for topic, (name, _, _) in last_known.topics.items()},
            connectors=tuple(procedure.flow.connectors.by_kind.values()),
        )
    )


def with_written_before(loss: pd.DataFrame, floors: pd.DataFrame) -> pd.DataFrame:
    """Return the lost records with `written_before`: the sample by whose end the oldest of them was written.

    It is the oldest sample after `written_since` whose log end lies above `from_offset`; null without such a sample,
    or without `written_since`. In milliseconds since 1970.

    Args:
        floors: the flight recorder's samples: topic, partition, source_end, sampled_at.
    """
    samples = loss[[*_PARTITION, "from_offset", "written_since"]].merge(floors, on=_PARTITION)
    shows = (samples["sampled_at"] > samples["written_since"]) & (samples["source_end"] > samples["from_offset"])
    oldest = samples[shows.fillna(False)].groupby(_PARTITION)["sampled_at"].min().astype("Int64")
    return loss.merge(oldest.rename("written_before").reset_index(), on=_PARTITION, how="left")


def with_rereads(
    plan: LossPlan, figures: dict[str, Any], by_group: pd.DataFrame, translated: pd.DataFrame | None
) -> LossPlan:
    """Return the plan with the most re-reads that each group can have, as computed before MirrorMaker 2 is stopped.

    Args:
        figures: figures of the loss assessment's job about re-reads. The plan's field `rereads` gets these figures and
            the largest bound of all groups.
        by_group: rows of group and bound: at whichever position the group continues, it has at most so many re-reads.
        translated: rows of the early translation, whose bounds are used where these are smaller; None without an early
            translation.
    """
    bounds = bounds_by_group(by_group)
    early_bounds = {} if translated is None else bounds_by_group(translated[translated["target_position"].notna()])
    bounds |= {group: min(bound, bounds.get(group, bound)) for group, bound in early_bounds.items()}
    groups = tuple(replace(group, rereads=bounds.get(group.group)) for group in plan.groups)
    return replace(plan, rereads=figures | {"bound": max(bounds.values(), default=None)}, groups=groups)


def bounds_by_group(rows: pd.DataFrame) -> dict[str, int]:
    """Return group -> the largest bound of re-reads in its rows; groups with a row without a bound are left out."""
    largest = rows["bound"].groupby(rows["group"], sort=False).agg(lambda bounds: bounds.max(skipna=False))
    return {str(group): int(bound) for group, bound in largest.dropna().items()}


def groups_of(procedure: Run, last_known: LastKnown, ahead: pd.DataFrame) -> tuple[LastKnownGroup, ...]:
    """Return the groups that move, each with its last known state.

    Args:
        ahead: groups' positions on the source that lie above all records that the target has, one row each.
    """
    ahead_counts = ahead.groupby("group").size()
    return tuple(
        LastKnownGroup(
            group=str(group),
            partitions=len(rows),
            policy=procedure.topology.policy_of(str(group)),
            active=group in last_known.active,
            position_at=int(oldest) if (oldest := rows["position_at"].min()) else None,
            ahead=int(ahead_counts.get(group, 0)),
        )
        for group, rows in last_known.positions.groupby("group")
    )


def opening_without_source(procedure: Run, topics: Iterable[str], groups: Iterable[str]) -> Opening:
    """Return the change that opens the target to clients with ALLOW entries on the target.

    The clients' rights are to write to these topics, and to read as members of these groups.
    """
    rules, exempt = target_rules(procedure), procedure.exempt(procedure.request.target)
    scopes = (FenceScope.writes(topics), FenceScope.group_reads(groups))
    return opening_of(procedure, rules, [(scope, client_principals(rules, scope, exempt)) for scope in scopes])
