"""Forecast a planned move: lag, expected translation classes, re-reads, ACL entries to remove on the target."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import pandas as pd

from kafka_dr.actions.clients import Opening, opening_of, rules_listing_clients
from kafka_dr.actions.groups.at_rest import are_many
from kafka_dr.actions.scope.position_frames import rank_names, with_partition_column
from kafka_dr.domain.fencing.fence import FenceScope, client_principals
from kafka_dr.domain.plain_text import first_few
from kafka_dr.domain.readiness.observation import Observation
from kafka_dr.domain.readiness.plan import GroupForecast, expected_classes, unknown_groups
from kafka_dr.errors import Refusal
from kafka_dr.procedure.entries import ReadinessChecked
from kafka_dr.procedure.run import Run

_FRESH_SECONDS = 60.0


def kept_for_forecast(procedure: Run, positions: pd.DataFrame, read_at: str) -> dict[str, Any]:
    """Save the groups' positions on the source for the forecast; return their receipt and the time of reading.

    Few positions are not saved, because the forecast reads few positions again in a second.

    Args:
        positions: groups' positions on the source, one row each.
        read_at: time at which the positions were read, ISO 8601.

    Returns:
        `positions` (the receipt) and `read_at`; {} if nothing was saved.
    """
    return (
        {"positions": procedure.artifacts.save("positions_at_readiness", positions), "read_at": read_at}
        if are_many(positions)
        else {}
    )


def positions_read_just_now(procedure: Run) -> pd.DataFrame | None:
    """Return the positions on the source that check_readiness saved less than a minute ago; else None.

    Saved positions are reused, because reading ten thousand groups again takes long.
    """
    ready = procedure.progress.require(ReadinessChecked)
    if ready.read_at is None or ready.positions is None:
        return None
    age = procedure.progress.now() - datetime.fromisoformat(ready.read_at).timestamp()
    return procedure.artifacts.load(ready.positions) if 0 <= age < _FRESH_SECONDS else None


def refuse_unknown_groups(procedure: Run, observation: Observation) -> None:
    """Refuse if param exclude_groups names a group that does not move, because the name may be misspelt."""
    unknown = unknown_groups(procedure.request.exclude_groups, observation.groups)
    if unknown:
        raise Refusal(
            "exclude_groups names groups that do not move",
            f"on {procedure.request.source}: {first_few(unknown, 20)}",
            "Correct the names, or remove these groups from the param exclude_groups, because only groups with a"
            " position on the flow's topics move; then start a new run.",
        )


def target_opening(procedure: Run, observation: Observation) -> Opening:
    """Return the change by which open_target opens the target to clients with rights on the source."""
    rules, exempt = rules_listing_clients(procedure, observation.source.rules, observation.target.rules)
    scopes = (FenceScope.writes(observation.scope), FenceScope.group_reads(observation.groups))
    principals = [(scope, client_principals(rules, scope, exempt)) for scope in scopes]
    return opening_of(procedure, observation.target.rules, principals)


def lag_of(observation: Observation) -> int:
    """Return an upper bound of the number of source records that are not replicated; empty offsets count, too."""
    replicated = {tp: -1 if last is None else last for tp, last in observation.flow.replicated.items()}
    return sum(
        max(0, end - 1 - max(replicated.get(tp, -1), observation.source_starts[tp] - 1))
        for tp, end in observation.last.source_ends.items()
    )


def records_per_second(observation: Observation) -> float:
    """Return the target logs' growth between the two samples, in offsets per second; 0 if there is only one sample."""
    grown = sum(observation.last.target_ends.values()) - sum(observation.first.target_ends.values())
    return (
        round(grown / (observation.last.at - observation.first.at), 1)
        if observation.last.at > observation.first.at
        else 0.0
    )


def compared_positions(
    observation: Observation, checkpoints: pd.DataFrame, syncs: Iterable[pd.DataFrame]
) -> pd.DataFrame:
    """Return the groups' positions on the source with lag, expected translation class, and MirrorMaker 2's re-reads.

    Args:
        checkpoints: MirrorMaker 2's checkpoints, as `checkpoints_of` returns them.
        syncs: the flow's offset syncs in portions, as `offset_syncs_of` yields them.

    Returns:
        One row per position. Columns: group, topic, partition, position; lag (number of offsets from the position to
        the source's log end); class (the expected translation class); mirror_maker_rereads (re-reads if the group began
        at its checkpoint: number of offsets from the checkpoint to the target's log end, minus lag; an estimate as long
        as the partition is not drained; null without a checkpoint); and columns from which these were computed.
    """
    rows = with_partition_column(
        with_partition_column(observation.positions, observation.last.source_ends, "end"),
        observation.last.target_ends,
        "target_end",
    )
    known = pd.Index(rows["position"].unique())
    at_positions = [portion[known.get_indexer(pd.Index(portion["upstream"])) >= 0] for portion in syncs]
    sync_points = (
        pd.concat(at_positions)[["topic", "partition", "upstream"]]
        .drop_duplicates()
        .rename(columns={"upstream": "position"})
        .assign(synced=True)
    )
    rows = rows.merge(sync_points, on=["topic", "partition", "position"], how="left")
    rows = rows.assign(
        end=rows["end"].fillna(rows["position"]),
        synced=rows["synced"].eq(True),
        target_topic=rows["topic"].map(observation.scope).astype(object),
    )
    rows = rows.merge(
        checkpoints.rename(columns={"topic": "target_topic"}), on=["group", "target_topic", "partition"], how="left"
    )
    lag = (rows["end"] - rows["position"]).clip(lower=0)
    rereads = (rows["target_end"] - rows["mirror_maker_position"] - lag).clip(lower=0)
    return rows.assign(lag=lag.astype("int64"), mirror_maker_rereads=rereads.astype("Int64")).assign(
        **{"class": expected_classes(rows)}
    )


def forecast_of(procedure: Run, observation: Observation, rows: pd.DataFrame) -> tuple[GroupForecast, ...]:
    """Return the forecast of each group that would move, sorted by the group's name.

    Args:
        rows: one row per position, with lag, expected translation class and MirrorMaker 2's re-reads.
    """
    codes, names = rank_names(rows["group"])
    by_group = rows.groupby(codes)
    figures = pd.DataFrame(
        {
            "partitions": by_group.size(),
            "lag": by_group["lag"].sum(),
            "rereads": by_group["mirror_maker_rereads"].sum(min_count=1),
        }
    )
    figures_of_group = {
        names[code]: (partitions, lag, rereads) for code, partitions, lag, rereads in figures.itertuples()
    }
    classes: dict[str, dict[str, int]] = {}
    counts = rows.groupby([codes, rows["class"]]).size().reset_index()
    for code, name, count in counts.itertuples(index=False):
        classes.setdefault(names[code], {})[name] = int(count)
    return tuple(
        GroupForecast(
            group=group,
            partitions=int((group_figures := figures_of_group.get(group, (0, 0, pd.NA)))[0]),
            lag=int(group_figures[1]),
            policy=procedure.topology.policy_of(group),
            active=(view := observation.source.groups.get(group)) is not None and not view.empty,
            mirror_maker_rereads=None if pd.isna(group_figures[2]) else int(group_figures[2]),
            expected=classes.get(group, {}),
        )
        for group in sorted(observation.groups)
    )
