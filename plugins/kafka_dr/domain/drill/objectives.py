"""A drill's objectives beside what its passes achieved, or, without passes, beside a forecast."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kafka_dr.domain.drill.facts import DrillFacts, DrillPass
from kafka_dr.domain.objectives.verdict import Measured, Verdict, judge_objective, stated_objectives
from kafka_dr.domain.plain_text import count_of, format_duration

FORECAST = "forecast"
_FIGURES = {"rto_seconds": "downtime_seconds", "rpo_records": "lost_records", "rpo_seconds": "lost_seconds"}
OBJECTIVES = tuple(_FIGURES)


@dataclass(frozen=True)
class JudgedObjective:
    """One objective beside what one pass achieved.

    Attributes:
        of: name of the pass; `forecast` in an observe drill.
        name: rto_seconds, rpo_seconds or rpo_records.
        least, most: the smallest and the largest possible value; None: unknown.
        reason: the figure in words, with where it comes from.
    """

    of: str
    flow: str
    name: str
    objective: float
    verdict: Verdict
    least: float | None
    most: float | None
    reason: str

    def as_dict(self) -> dict[str, Any]:
        """Return the objective as a JSON object."""
        return {**vars(self), "verdict": self.verdict.value}


def judge_objectives(facts: DrillFacts) -> list[JudgedObjective]:
    """Return each objective of the drilled flow for each pass that had to complete.

    Passes in the other direction are judged by the objectives that their own evidence names.
    """
    if not facts.passes:
        return list(_forecast(facts))
    passes = [one for one in facts.passes if one.expected == "completed"]
    return [judged for one in passes for judged in _of_pass(one, facts)]


def _forecast(facts: DrillFacts) -> Iterator[JudgedObjective]:
    """Yield the objectives beside the forecast of the readiness document; without a figure unknown."""
    now = facts.outlook or {}
    known = {
        "rto_seconds": (Measured(now.get("seconds"), now.get("seconds")), "seconds"),
        "rpo_records": (Measured(now.get("certain"), now.get("possible")), "possible"),
        "rpo_seconds": (Measured(None, None), "lost_seconds"),
    }
    for name, objective in stated_objectives(facts.objectives).items():
        measured, field = known[name]
        why = (now.get("unknown") or {}).get(field) or "the forecast has no such figure"
        text = why if measured.most is None else f"forecast: {_in_words(name, measured)}"
        verdict = judge_objective(objective, measured)
        yield JudgedObjective(FORECAST, _flow(facts), name, objective, verdict, *measured, text)


def _of_pass(one: DrillPass, facts: DrillFacts) -> Iterator[JudgedObjective]:
    own = (one.evidence or {}).get("objectives")
    same = (one.source, one.target) == (facts.source, facts.target)
    for name, objective in stated_objectives(own or (facts.objectives if same else None)).items():
        measured, text = measure_pass(one, name)
        verdict = judge_objective(objective, measured)
        yield JudgedObjective(one.name, f"{one.source}->{one.target}", name, objective, verdict, *measured, text)


def measure_pass(one: DrillPass, name: str) -> tuple[Measured, str]:
    """Return the figure of a pass that the objective `name` is about, and the figure in words with its origin."""
    return _counted(one, name) or _stated((one.evidence or {}).get("achieved") or {}, name)


def _counted(one: DrillPass, name: str) -> tuple[Measured, str] | None:
    """Return what the drill counted itself; None where the pass's evidence is all there is.

    Of a simulated loss the drill knows each lost record, while the pass could not read the source.
    """
    counted = one.integrity
    if not one.simulated_loss or counted is None or counted.lost_listed is None or counted.lost_unlisted is None:
        return None
    lost = counted.lost_listed + counted.lost_unlisted
    if name == "rpo_records":
        return Measured(lost, lost), f"by the drill's own count {count_of(lost, 'record')} lost"
    if name == "rto_seconds" and (down := counted.downtime_seconds) is not None:
        text = f"clients could use neither cluster for {format_duration(down)}, from the moment the source was cut off"
        return Measured(down, down), text
    if name == "rpo_seconds" and counted.lost_seconds is not None:
        age = counted.lost_seconds
        return Measured(
            age, age
        ), f"the oldest lost record was written {format_duration(age)} before the source was lost"
    return None


def _stated(achieved: Mapping[str, Any], name: str) -> tuple[Measured, str]:
    """Return what a pass's evidence says it achieved."""
    figure = achieved.get(_FIGURES[name])
    verdict = (achieved.get("verdicts") or {}).get(name) or {}
    if isinstance(figure, Mapping):
        measured = Measured(figure.get("certain"), figure.get("possible"))
    else:
        # The evidence states a downtime without its upper bound: where that is unknown, so is the verdict.
        measured = Measured(figure, figure if _is_bounded(achieved, verdict) else None)
    return measured, verdict.get("reason") or (_in_words(name, measured) if measured.most is not None else "not known")


def _is_bounded(achieved: Mapping[str, Any], verdict: Mapping[str, Any]) -> bool:
    if verdict:
        return bool(verdict.get("verdict") != Verdict.UNKNOWN)
    return achieved.get("downtime_since") not in (None, "trigger")


def _in_words(name: str, measured: Measured) -> str:
    most = measured.most or 0
    return f"at most {count_of(int(most), 'record')} lost" if name == "rpo_records" else format_duration(most)


def _flow(facts: DrillFacts) -> str:
    return f"{facts.source}->{facts.target}"
