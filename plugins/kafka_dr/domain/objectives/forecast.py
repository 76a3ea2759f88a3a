"""A plan's figures beside the objectives, as Markdown for the question of a gate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka_dr.domain.objectives.losses import (
    gone_since,
    last_sign_of_life,
    lost_records,
    lost_seconds,
    records_text,
    seconds_text,
)
from kafka_dr.domain.objectives.verdict import Measured, Verdict, judge_objective, objective_text, stated_objectives
from kafka_dr.domain.plain_text import format_duration, table_cell

_WORDS = {
    Verdict.MET: "no breach forecast",
    Verdict.BREACHED: "**breach forecast**",
    Verdict.UNKNOWN: "possible breach",
}
Row = tuple[Measured, str]


def move_forecast(plan: Mapping[str, Any]) -> list[str]:
    """Return Markdown lines with the objectives of a planned failover or failback; [] if none are stated.

    Args:
        plan: as of `FailoverPlan.as_dict`; plans of earlier versions state no objectives.
    """
    drain, fence = plan["drain_seconds"], plan["deadlines"]["max_fence_seconds"]
    lasts = "an unknown time" if drain is None else format_duration(drain)
    downtime = (
        f"replication of what lags takes {lasts}; clients are fenced for at most {format_duration(fence)} until"
        " open_target begins"
    )
    none = f"the run returns to {plan['source']} if {plan['target']} lacks a record below the cut-off"
    lossless: Row = (Measured(0, 0), none)
    return _table(
        plan,
        {"rto_seconds": (Measured(drain, fence), downtime), "rpo_seconds": lossless, "rpo_records": lossless},
    )


def loss_forecast(plan: Mapping[str, Any]) -> list[str]:
    """Return Markdown lines with the objectives of an unplanned failover; [] if none are stated.

    Args:
        plan: as of `LossPlan.as_dict`; plans of earlier versions state no objectives.
    """
    sign, began, source, rows = last_sign_of_life(plan), plan["seen"].get("looked_for_at"), plan["source"], plan["loss"]
    passed = None if sign is None or began is None else max(0.0, (began - sign) / 1000)
    downtime = (
        "when clients could use the source last is unknown"
        if passed is None
        else f"{format_duration(passed)} had passed since the last sign of life of {source} when this run began to"
        " check it"
    )
    records, seconds = lost_records(rows), lost_seconds(rows, sign, gone_since(plan, rows, None))
    return _table(
        plan,
        {
            "rto_seconds": (Measured(passed, None), downtime),
            "rpo_seconds": (seconds, seconds_text(seconds, f"{source} was lost")),
            "rpo_records": (records, records_text(records)),
        },
    )


def _table(plan: Mapping[str, Any], forecast: Mapping[str, Row]) -> list[str]:
    objectives = plan.get("objectives") or {}
    rows = [
        f"| {objective_text(name, value)} | {_WORDS[judge_objective(value, forecast[name][0])]} |"
        f" {table_cell(forecast[name][1])} |"
        for name, value in stated_objectives(objectives).items()
    ]
    tier = f" Tier: {table_cell(objectives['tier'])}." if objectives.get("tier") else ""
    head = [f"Objectives of this flow.{tier}", "", "| objective | verdict | forecast |", "| --- | --- | --- |"]
    return [*head, *rows, ""] if rows else []
