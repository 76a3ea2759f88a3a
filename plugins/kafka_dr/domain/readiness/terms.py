"""The terms of a run, which its plan states: clusters, topology, deadlines and approvers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from kafka_dr.domain.plain_text import table_cell


@dataclass(frozen=True)
class BoundCluster:
    """One cluster of a run, as it was when the run began.

    Attributes:
        id: Kafka's cluster id; None if the cluster did not answer and no earlier run recorded the id.
        bootstrap_servers: of the cluster's Airflow connection.
        other_id_before: the cluster id that the last run recorded for the same alias, if that id was another one.
    """

    id: str | None
    bootstrap_servers: str
    other_id_before: str | None = None


@dataclass(frozen=True)
class Terms:
    """What a run's plan states about the run itself.

    Attributes:
        clusters: source and target, by alias.
        topology_digest: SHA-256 of the topology's canonical JSON.
        deadlines: deadlines of the run that differ from the topology's: name -> seconds in the topology, in the run.
        approvers: users who may approve; empty: everybody but the starter.
        approver_roles: roles whose users may approve, too.
    """

    clusters: Mapping[str, BoundCluster]
    topology_digest: str
    deadlines: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    approvers: tuple[str, ...] = ()
    approver_roles: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the terms as plain JSON data."""
        return asdict(self)


def terms_markdown(terms: Mapping[str, Any]) -> list[str]:
    """Return Markdown lines on a plan's terms; [] for a plan that states none.

    Args:
        terms: as of `Terms.as_dict`.
    """
    if not terms:
        return []
    lines = ["| cluster | cluster id | bootstrap servers |", "| --- | --- | --- |"]
    clusters = sorted(terms["clusters"].items())
    for alias, cluster in clusters:
        cells = (alias, cluster["id"] or "unknown", cluster["bootstrap_servers"])
        lines.append(f"| {' | '.join(map(table_cell, cells))} |")
    for alias, cluster in clusters:
        if before := cluster["other_id_before"]:
            told = f"**{table_cell(alias)} was another cluster in the last run:** its cluster id was"
            lines += ["", f"{told} {table_cell(before)}."]
    changed = [
        f"{name} {ours:g} s (topology: {stated:g} s)" for name, (stated, ours) in sorted(terms["deadlines"].items())
    ]
    if changed:
        lines += ["", f"**The starter changed these deadlines:** {table_cell(', '.join(changed))}."]
    return [*lines, "", _approvers_line(terms), "", f"Topology digest `{terms['topology_digest']}`", ""]


def _approvers_line(terms: Mapping[str, Any]) -> str:
    named = [
        *(table_cell(user) for user in terms["approvers"]),
        *(f"users with the role {table_cell(role)}" for role in terms["approver_roles"]),
    ]
    if named:
        return f"May approve, unless they started the run: {', '.join(named)}."
    return "The topology names no approvers: everybody but the starter may approve."
