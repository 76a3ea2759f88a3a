"""Can the clients move now, and what will happen if they do."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any

import pandas as pd

from kafka_dr.actions.groups.at_rest import READ_AGAIN_UP_TO
from kafka_dr.actions.scope.position_frames import rank_names, with_partition_column
from kafka_dr.domain.fencing.fence import (
    FenceScope,
    client_principals,
    opening_entries,
)
from kafka_dr.domain.plain_text import first_few
from kafka_dr.domain.readiness.observation import Observation
from kafka_dr.domain.readiness.plan import GroupForecast, expected_classes, unknown_groups
from kafka_dr.errors import Refusal
from kafka_dr.procedure.entries import (
    ReadinessChecked,
)
from kafka_dr.procedure.run import Run

_JUST_NOW_SECONDS = 60.0


def kept_for_forecast(procedure: Run, positions: pd.DataFrame, read_at: str) -> dict[str, Any]:
    """Figures of positions that the forecast takes if it follows at once; few are better read again."""
    return (
        {"positions": procedure.artifacts.save("positions_at_readiness", positions), "read_at": read_at}
        if len(positions) > READ_AGAIN_UP_TO
        else {}
    )


def positions_read_just_now(procedure: Run) -> pd.DataFrame | None:
    """Positions of check_readiness if read just now, else None: reading ten thousand groups again takes long."""
    ready = procedure.progress.require(ReadinessChecked)
    if ready.read_at is None or ready.positions is None:
        return None
    age = time.time() - datetime.fromisoformat(ready.read_at).timestamp()
    return procedure.artifacts.load(ready.positions) if 0 <= age < _JUST_NOW_SECONDS else None


def refuse_unknown_groups(procedure: Run, seen: Observation) -> None:
    """Whoever excludes a group must have meant one that moves."""
    unknown = unknown_groups(procedure.request.exclude_groups, seen.groups)
    if unknown:
        raise Refusal(
            "exclude_groups names groups that do not move",
            first_few(unknown, 20),
            "Name groups that have a position on the flow's topics; start a new procedure.",
        )


def target_opening(seen: Observation) -> list[Any]:
    """DENY entries of the target that opening it will remove."""
    exempt = seen.exempt[seen.source.alias]
    return [
        entry
        for scope in (FenceScope.writes(seen.scope), FenceScope.group_reads(seen.groups))
        for entry in opening_entries(seen.target.rules, scope, client_principals(seen.source.rules, scope, exempt))
    ]


def lag_of(seen: Observation) -> int:
    """Records not replicated yet: an upper bound, since offsets without a record count too."""
    replicated = {tp: -1 if last is None else last for tp, last in seen.flow.replicated.items()}
    return sum(
        max(0, end - 1 - max(replicated.get(tp, -1), seen.source_starts[tp] - 1))
        for tp, end in seen.last.source_ends.items()
    )


def records_per_second(seen: Observation) -> float:
    """How fast the target grew between the two samples; 0 when it did not, or when there is only one."""
    grown = sum(seen.last.target_ends.values()) - sum(seen.first.target_ends.values())
    return round(grown / (seen.last.at - seen.first.at), 1) if seen.last.at > seen.first.at else 0.0


def compared_positions(seen: Observation, checkpoints: pd.DataFrame, syncs: pd.DataFrame) -> pd.DataFrame:
    """Positions on the scope's topics with what they are measured by.

    Returns:
        Beside group, topic, partition and position: lag (records to the log end); class, as expected;
        mirror_maker_rereads, the records between MirrorMaker 2's position and the log end on the target that are not
        lag: an estimate before the drain, null without its checkpoint.
    """
    held = with_partition_column(
        with_partition_column(seen.positions, seen.last.source_ends, "end"), seen.last.target_ends, "target_end"
    )
    known = (
        syncs[["topic", "partition", "upstream"]]
        .drop_duplicates()
        .rename(columns={"upstream": "position"})
        .assign(synced=True)
    )
    held = held.merge(known, on=["topic", "partition", "position"], how="left")
    held = held.assign(
        end=held["end"].fillna(held["position"]),
        synced=held["synced"].eq(True),
        target_topic=held["topic"].map(seen.scope).astype(object),
    )
    held = held.merge(
        checkpoints.rename(columns={"topic": "target_topic"}), on=["group", "target_topic", "partition"], how="left"
    )
    lag = (held["end"] - held["position"]).clip(lower=0)
    rereads = (held["target_end"] - held["mirror_maker_position"] - lag).clip(lower=0)
    return held.assign(lag=lag.astype("int64"), mirror_maker_rereads=rereads.astype("Int64")).assign(
        **{"class": expected_classes(held)}
    )


def forecast_of(procedure: Run, seen: Observation, held: pd.DataFrame) -> tuple[GroupForecast, ...]:
    """What is expected for each group in scope."""
    codes, names = rank_names(held["group"])
    found = held.groupby(codes)
    figures = pd.DataFrame(
        {
            "partitions": found.size(),
            "lag": found["lag"].sum(),
            "rereads": found["mirror_maker_rereads"].sum(min_count=1),
        }
    )
    known = {names[code]: (partitions, lag, rereads) for code, partitions, lag, rereads in figures.itertuples()}
    classes: dict[str, dict[str, int]] = {}
    counts = held.groupby([codes, held["class"]]).size().reset_index()
    for code, name, count in counts.itertuples(index=False):
        classes.setdefault(names[code], {})[name] = int(count)
    return tuple(
        GroupForecast(
            group=group,
            partitions=int((at := known.get(group, (0, 0, pd.NA)))[0]),
            lag=int(at[1]),
            policy=procedure.topology.policy_of(group),
            active=(view := seen.source.groups.get(group)) is not None and not view.empty,
            mirror_maker_rereads=None if pd.isna(at[2]) else int(at[2]),
            expected=classes.get(group, {}),
        )
        for group in sorted(seen.groups)
    )
