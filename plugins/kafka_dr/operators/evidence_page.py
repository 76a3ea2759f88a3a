"""The evidence as one self-contained page."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

_PLAIN = {
    "completed": "Clients now work on {target}.",
    "returned": "Nothing moved: clients are back on {source}, as they were found.",
    "refused": "Nothing was touched: clients never left {source}.",
    "aborted": "The procedure was aborted; clients are on {source}.",
    "failed": "The procedure stopped in the middle and still holds the pair of clusters: see the failing step.",
}


def evidence_page(evidence: Mapping[str, Any]) -> str:
    """HTML of the evidence; every value is escaped."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parents[1] / "templates"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    plain = _PLAIN[evidence["outcome"]].format(source=evidence["source"], target=evidence["target"])
    return environment.get_template("evidence.html.j2").render(e=evidence, plain=plain, bars=_bars(evidence), ends=_ends(evidence))


def _bars(evidence: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each step's place on the time line, in per cent of the whole."""
    times = [(s["id"], s["state"], datetime.fromisoformat(s["started_at"]), datetime.fromisoformat(s["ended_at"])) for s in evidence["steps"]]
    if not times:
        return []
    start, end = min(t[2] for t in times), max(t[3] for t in times)
    whole = max((end - start).total_seconds(), 0.001)
    return [
        {"id": step, "state": state, "left": 100 * (a - start).total_seconds() / whole, "width": max(0.4, 100 * (b - a).total_seconds() / whole), "seconds": (b - a).total_seconds()}
        for step, state, a, b in times
    ]


def _ends(evidence: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Cut-off and boundary side by side, paired by the plan's names."""
    remote = {topic: name for topic, name, _, _ in (evidence["plan"] or {"topics": []})["topics"]}
    boundary = {(row["topic"], row["partition"]): row["offset"] for row in evidence["boundary"]}
    pairs = [(row, (remote.get(row["topic"], row["topic"]), row["partition"])) for row in evidence["cut_off"]]
    return [
        {"source": f"{row['topic']}-{row['partition']}", "cut_off": row["offset"], "target": f"{there[0]}-{there[1]}", "boundary": boundary.get(there, "not reached")}
        for row, there in pairs
    ]
