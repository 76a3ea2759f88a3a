"""Readers of evidence fields that several parts of the evidence page need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kafka_dr.domain.plain_text import first_few
from kafka_dr.vocabulary import Step

Evidence = Mapping[str, Any]


def step_done(e: Evidence) -> set[str]:
    """Return the ids of the steps that are done."""
    return {step["id"] for step in e["steps"] if step["state"] == "done"}


def figures_by_step(e: Evidence) -> dict[str, Mapping[str, Any]]:
    """Return the figures of each step, by step id."""
    return {step["id"]: step.get("figures", {}) for step in e["steps"]}


def excluded_rows(e: Evidence) -> list[dict[str, Any]]:
    """Return one row per group that drain_consumers did not wait for: group, reason, policy, members.

    If drain_consumers is not done, the rows are those of the plan.
    """
    drained, plan = figures_by_step(e).get(Step.DRAIN_CONSUMERS, {}), e["plan"] or {}
    groups = e.get("excluded_groups") or drained.get("excluded") or plan.get("excluded") or []
    return [
        {
            "group": g["group"],
            "reason": g.get("reason", ""),
            "policy": g.get("policy", ""),
            "members": _members(g.get("members")),
        }
        for g in groups
    ]


def _members(members: Any) -> str:
    if isinstance(members, Sequence) and not isinstance(members, str):
        return first_few(members, 5)
    return "" if members is None else str(members)
