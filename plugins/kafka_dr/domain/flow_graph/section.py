"""The section of a plan, and of a readiness document, on all flows of the topology."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from kafka_dr.domain.flow_graph.graph import FlowGraph
from kafka_dr.domain.flow_graph.move import GraphMove, fates_of
from kafka_dr.domain.flow_graph.readers import read_after, unreadable_after
from kafka_dr.domain.flow_graph.views import views_markdown
from kafka_dr.domain.mirror_maker.naming import Naming
from kafka_dr.domain.plain_text import table_cell

#: Stands for any topic in the names that readers use.
ANY_TOPIC = "TOPIC"


def flows_section(graph: FlowGraph, naming: Naming, move: GraphMove) -> dict[str, Any]:
    """Return what a move does to all flows, and what readers find afterwards, as plain data.

    Keys: `patterns` ([pattern, clusters] each), `flows` (flow, fate and why each), `readers` (the fields of
    `ReadAfterMove` each, for a topic called TOPIC), `unreadable` (names on the source that the target has no copy of).
    """
    graph = graph.led_by(move.source, move.target)
    return {
        "patterns": [list(pattern) for pattern in graph.patterns()],
        "flows": [{"flow": str(one.edge), "fate": one.fate.value, "why": one.why} for one in fates_of(graph, move)],
        "readers": [asdict(row) for row in read_after(graph, naming, move, ANY_TOPIC)],
        "unreadable": list(unreadable_after(graph, naming, move, ANY_TOPIC)),
    }


def flows_markdown(section: Mapping[str, Any], source: str) -> list[str]:
    """Return the section as Markdown lines; [] without a section.

    Args:
        section: as of `flows_section`.
        source: the cluster that clients leave.
    """
    if not section:
        return []
    patterns = "; ".join(f"{pattern} ({clusters})" for pattern, clusters in section["patterns"])
    flows = [f"| {row['flow']} | {row['fate']} | {table_cell(row['why'])} |" for row in section["flows"]]
    readers = [
        f"| {row['cluster']} | {row['name']} | {row['before'] or '-'} | {row['change'] or 'no change'} |"
        for row in section["readers"]
    ]
    head = f"| cluster | name of a topic {ANY_TOPIC} | its name on {source} | after the move |"
    lost = ", ".join(section["unreadable"])
    missing = [
        f"**Clients that move cannot read on, because no flow brings these records to their new cluster:** {lost}.",
        "",
    ]
    return [
        f"Topology: {patterns}. What becomes of each flow:",
        "",
        "| flow | it | because |",
        "| --- | --- | --- |",
        *flows,
        "",
        "What readers find after the move:",
        "",
        head,
        "| --- | --- | --- | --- |",
        *readers,
        "",
        *(missing if lost else []),
        *views_markdown(section, source),
    ]
