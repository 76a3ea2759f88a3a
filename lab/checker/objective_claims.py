"""Check what the evidence says of objectives against the evidence's own steps, times and rows of loss."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lab.checker.evidence_file import wall_clock_milliseconds
from lab.checker.findings import Finding

#: Times are rounded to milliseconds in two places.
_SLACK_SECONDS = 0.01
Evidence = Mapping[str, Any]
Limits = tuple[float | None, float | None]


def objective_findings(evidence: Evidence) -> list[Finding]:
    """Return findings on `objectives` and `achieved` of a completed move.

    Downtime and lost records are counted again from steps, plan and loss; each verdict must follow from the figures,
    and each breach must stand among the warnings.
    """
    if "objectives" not in evidence or not isinstance(evidence.get("achieved"), Mapping):
        return [_finding(f"objectives or achieved is absent: achieved is {evidence.get('achieved')!r:.80}")]
    return [*_downtime_findings(evidence), *_loss_findings(evidence), *_verdict_findings(evidence)]


def _downtime_findings(evidence: Evidence) -> Iterator[Finding]:
    claimed, (began, _) = evidence["achieved"]["downtime_seconds"], _outage(evidence)
    ended = _step(evidence, "redirect_clients").get("ended_at")
    if began is None or ended is None:
        yield _finding("the run completed without a beginning or an end of the clients' downtime")
        return
    counted = (wall_clock_milliseconds(ended) - began) / 1000
    if claimed is None or abs(claimed - counted) > _SLACK_SECONDS:
        yield _finding(f"achieved.downtime_seconds is {claimed!r}, steps and plan give {counted}")
    if claimed != evidence["seconds"].get("downtime"):
        yield _finding(f"seconds.downtime is {evidence['seconds'].get('downtime')!r}, achieved has {claimed!r}")


def _outage(evidence: Evidence) -> tuple[int | None, bool]:
    """Return when the clients' downtime began, in milliseconds since 1970, and whether that is no later than it did."""
    fence = _step(evidence, "fence_producers").get("started_at")
    if evidence["dag_id"] != "unplanned_failover":
        return (wall_clock_milliseconds(fence) if fence else None), True
    seen, earlier = evidence["plan"].get("seen") or {}, evidence["plan"].get("continues") or {}
    signs = [seen[name] for name in ("recorded_at", "heartbeat_at", "read_at") if seen.get(name) is not None]
    starts = [max(signs)] if signs else []
    if earlier.get("fenced_at"):
        starts.append(wall_clock_milliseconds(earlier["fenced_at"]))
    triggered = wall_clock_milliseconds(evidence["closed_at"]) - round(evidence["seconds"]["whole"] * 1000)
    return min(triggered, *starts) if starts else triggered, bool(starts)


def _loss_findings(evidence: Evidence) -> Iterator[Finding]:
    records, seconds = (_limits(evidence["achieved"][name]) for name in ("lost_records", "lost_seconds"))
    certain, possible = 0, 0
    bounded = not evidence["problems"]
    for row in evidence["loss"]:
        sure = max(0, (row["certain_to"] or 0) - row["from_offset"])
        if sure and row.get("records") is not None:
            sure = row["records"]
        certain += sure
        bounded = bounded and row["possible_to"] is not None
        if row["possible_to"] is not None:
            width, counted = row["possible_to"] - row["from_offset"], row.get("records")
            possible += max(sure, width if counted is None else counted)
    counted_again = (certain, possible if bounded else None)
    if records != counted_again:
        yield _finding(f"achieved.lost_records is {records}, the rows of loss give {counted_again}")
    if (seconds == (0, 0)) != (counted_again == (0, 0)):
        yield _finding(f"achieved.lost_seconds is {seconds}, the rows of loss give {counted_again} lost records")
    if seconds[0] is None or (seconds[1] is not None and seconds[1] < seconds[0]):
        yield _finding(f"achieved.lost_seconds is {seconds}")


def _verdict_findings(evidence: Evidence) -> Iterator[Finding]:
    achieved, objectives = evidence["achieved"], evidence["objectives"] or {}
    downtime = achieved["downtime_seconds"]
    limits = {
        "rto_seconds": (downtime, downtime if _outage(evidence)[1] else None),
        "rpo_seconds": _limits(achieved["lost_seconds"]),
        "rpo_records": _limits(achieved["lost_records"]),
    }
    expected = {name: _verdict(objectives[name], *limits[name]) for name in limits if objectives.get(name) is not None}
    claimed = {name: verdict["verdict"] for name, verdict in achieved["verdicts"].items()}
    if claimed != expected:
        yield _finding(f"verdicts on objectives are {claimed}, the figures give {expected}")
    breaches = list(expected.values()).count("breached")
    if sum("breached" in warning for warning in evidence.get("warnings", [])) < breaches:
        yield _finding(f"{breaches} objectives are breached, and the warnings do not say so: {evidence['warnings']}")


def _verdict(objective: float, least: float | None, most: float | None) -> str:
    if least is not None and least > objective:
        return "breached"
    return "met" if most is not None and most <= objective else "unknown"


def _limits(figure: Mapping[str, Any]) -> Limits:
    return figure["certain"], figure["possible"]


def _step(evidence: Evidence, name: str) -> Mapping[str, Any]:
    return next((step for step in evidence["steps"] if step["id"] == name), {})


def _finding(text: str) -> Finding:
    return Finding("evidence", text)
