"""What the page of a drill's report shows, computed from the drill's evidence alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka_dr.domain.drill.findings import FindingState
from kafka_dr.domain.drill.objectives import OBJECTIVES
from kafka_dr.domain.drill.report import ReportField, report_fields, whole_section
from kafka_dr.domain.drill.verdict import CANARY, FULL, OBSERVE
from kafka_dr.domain.evidence.timeline import TimeLine, time_line
from kafka_dr.domain.objectives.verdict import Verdict, objective_text
from kafka_dr.domain.plain_text import (
    Shown,
    count_of,
    first_few,
    first_of,
    format_duration,
    format_moment,
    format_number,
)

ROWS_SHOWN = 100
_KINDS: Mapping[str, str] = {
    OBSERVE: "it looked at everything and changed nothing",
    CANARY: "it moved topics and groups of its own on the real clusters, and no client",
    FULL: "it moved the clients, and brought them back",
}
_VERDICTS: Mapping[str, str] = {
    "passed": "passed: nothing was found that speaks against a failover",
    "conditional": "passed with conditions: what follows has to be mended, accepted or made known",
    "failed": "failed: what follows has to be mended, and the drill repeated",
}
_COUNTS: Mapping[str, str] = {
    "written": "written",
    "mirrored": "found on the target",
    "read": "read by the groups",
    "lost_listed": "lost, and listed",
    "lost_unlisted": "lost, on no list",
    "repeated": "mirrored more than once",
    "reread_most": "most read again by one group",
    "positions_exact": "positions exact",
    "positions_bound": "positions behind",
    "positions_ahead": "positions ahead",
}


@dataclass(frozen=True)
class JudgedRow:
    """An objective beside what one pass achieved.

    Attributes:
        kind: colour of the verdict: good, bad or people (unknown).
    """

    of: str
    flow: str
    objective: str
    verdict: str
    kind: str
    achieved: str


@dataclass(frozen=True)
class PassOverview:
    """One pass in one row: its figures as text, each with the verdict on the objective and the verdict's colour."""

    of: str
    flow: str
    cells: Sequence[tuple[str, str, str]]


@dataclass(frozen=True)
class ComparedSeconds:
    """Seconds of a step in the last drill and in this one, as text and as lengths of bars in per cent.

    Attributes:
        first: whether the row is the first one of its pass.
    """

    of: str
    first: bool
    step: str
    before: str
    now: str
    change: str
    before_share: float
    now_share: float


@dataclass(frozen=True)
class DrillPage:
    """Everything that the report's page shows.

    Attributes:
        fields: the twenty fields, by name.
        sentences: what the drill was, and what came of it.
        reasons: why the drill did not pass, those that fail it first.
        open: findings that are neither closed nor accepted.
        lines: a time line for the drill's own steps and for each pass: (title, outcome, time line or None).
        counts: one row a count: its name, and the figure of each pass.
        loss: lost ranges, each with the name of its pass.
    """

    fields: Mapping[str, ReportField]
    drill: Mapping[str, Any]
    sentences: Sequence[str]
    reasons: Sequence[Mapping[str, Any]]
    open: Sequence[Mapping[str, Any]]
    overview: Sequence[PassOverview]
    achieved: Sequence[JudgedRow]
    lines: Sequence[tuple[str, str, TimeLine | None]]
    counts: Sequence[tuple[str, Sequence[str]]]
    loss: Shown
    seconds: Sequence[ComparedSeconds]
    not_run: Shown
    retries: Shown


def summarise_drill(evidence: Mapping[str, Any]) -> DrillPage:
    """Return everything that the page of a drill's report shows."""
    drill = whole_section(evidence)
    lost = [{"pass": one["name"], **row} for one in drill["passes"] for row in one.get("loss") or ()]
    return DrillPage(
        fields={field.name: field for field in report_fields(evidence)},
        drill=drill,
        sentences=list(drill_sentences(drill)),
        reasons=sorted(drill["reasons"], key=lambda reason: bool(reason["verdict"] != "failed")),
        open=[finding for finding in drill["findings"] if finding.get("state") == FindingState.OPEN],
        overview=list(_overview(drill["achieved"]["by_pass"])),
        achieved=[_judged(row) for row in drill["achieved"]["by_pass"]],
        lines=list(_lines(drill)),
        counts=[(name, _figures(drill["passes"], key)) for key, name in _COUNTS.items()],
        loss=first_of(lost, ROWS_SHOWN),
        seconds=_compared((drill["comparison"] or {}).get("seconds") or ()),
        not_run=first_of(drill["steps_not_run"], ROWS_SHOWN),
        retries=first_of(drill["retries"], ROWS_SHOWN),
    )


def drill_sentences(drill: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a drill was, and what came of it, as sentences."""
    flow = f"{drill['source']} to {drill['target']}"
    yield f"The {drill['kind']} drill from {flow} {_VERDICTS.get(drill['verdict'], drill['verdict'])}."
    yield f"A drill of kind {drill['kind']}: {_KINDS.get(drill['kind'], 'an unknown kind')}."
    found = [finding for finding in drill["findings"] if finding.get("state") == FindingState.OPEN]
    due = f"The next drill is due by {format_moment(drill['next_due'])}." if drill["next_due"] else ""
    still = f"{count_of(len(found), 'finding')} {'is' if len(found) == 1 else 'are'} open."
    yield " ".join(filter(None, [still, due]))


def drill_to_do(drill: Mapping[str, Any]) -> list[str]:
    """Return what the people responsible for the drill have to do now, the most urgent first."""
    tasks = []
    if drill["left_over"]:
        tasks.append(f"Remove what the clean-up left: {first_few(drill['left_over'], 5, '; ')}.")
    if drill["verdict"] == "failed":
        by = f" by {format_moment(drill['retest_due'])}" if drill["retest_due"] else ""
        tasks.append(f"Mend what failed, and repeat the drill{by}.")
    if not drill["sign_offs"]:
        tasks.append("Answer sign_off_drill: scenario, third parties, observers, owners of the findings, conclusion.")
    open_ones = [one["id"] for one in drill["findings"] if one.get("state") == FindingState.OPEN]
    if open_ones:
        listed = first_few(open_ones)
        tasks.append(f"Give each open finding an owner and a date, or close or accept it by name: {listed}.")
    return [*tasks, "Read drill_report.html beside this page: it has the whole report."]


def _judged(row: Mapping[str, Any]) -> JudgedRow:
    verdict = Verdict(row["verdict"])
    kind = {Verdict.MET: "good", Verdict.BREACHED: "bad"}.get(verdict, "people")
    return JudgedRow(
        row["of"], row["flow"], objective_text(row["name"], row["objective"]), verdict.value, kind, row["reason"]
    )


def _overview(rows: Sequence[Mapping[str, Any]]) -> Iterator[PassOverview]:
    """Yield a row a pass; a pass without objectives has no row."""
    for of, flow in dict.fromkeys((row["of"], row["flow"]) for row in rows):
        mine = {row["name"]: row for row in rows if (row["of"], row["flow"]) == (of, flow)}
        yield PassOverview(of, flow, [_cell(mine.get(name), name) for name in OBJECTIVES])


def _cell(row: Mapping[str, Any] | None, name: str) -> tuple[str, str, str]:
    if row is None:
        return "no objective", "", ""
    figure = row["most"] if row["most"] is not None else row["least"]
    if figure is None:
        text = "unknown"
    else:
        text = count_of(int(figure), "record") if name == "rpo_records" else format_duration(figure)
        text = text if row["most"] is not None else f"at least {text}"
    judged = _judged(row)
    return text, f"{judged.verdict}: {judged.objective}", judged.kind


def _lines(drill: Mapping[str, Any]) -> Iterator[tuple[str, str, TimeLine | None]]:
    own = {"steps": drill["steps"], "closed_at": drill["ended_at"]}
    yield "failover_drill", drill["verdict"], time_line(own)
    for one in drill["passes"]:
        flow = f"{one['name']}: {one['source']} \u2192 {one['target']}"
        yield flow, one.get("outcome") or "did not end", time_line({**one, "steps": one.get("steps") or ()})


def _figures(passes: Sequence[Mapping[str, Any]], key: str) -> list[str]:
    return [format_number((one.get("integrity") or {}).get(key)).replace("unknown", "not counted") for one in passes]


def _compared(rows: Sequence[Mapping[str, Any]]) -> list[ComparedSeconds]:
    """Return the rows with bars on one scale; the longest figure of all rows is 100 per cent."""
    most = max((row[side] or 0.0 for row in rows for side in ("before", "now")), default=0.0) or 1.0
    return [
        ComparedSeconds(
            row["pass"],
            number == 0 or rows[number - 1]["pass"] != row["pass"],
            {"all": "the whole pass", "downtime": "clients' downtime"}.get(row["step"], row["step"]),
            _seconds(row["before"]),
            _seconds(row["now"]),
            "" if row["change_percent"] is None else f"{row['change_percent']:+.1f} %",
            round(100 * (row["before"] or 0.0) / most, 2),
            round(100 * (row["now"] or 0.0) / most, 2),
        )
        for number, row in enumerate(rows)
    ]


def _seconds(value: float | None) -> str:
    return "none" if value is None else format_duration(value)
