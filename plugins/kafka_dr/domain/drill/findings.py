"""Findings of drills: what has to be mended, by whom, until when, and what became of it.

Invariants
1. The id of a finding follows from what is wrong, not from the drill: the same fault has the same id in each drill.
2. A finding of the last drill stays open until a person closes it, or accepts it by name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from kafka_dr.domain.drill.names import DRILL
from kafka_dr.domain.drill.sign_off import NEW, FindingAnswer

PAGE = "runbooks/drill_report.md"
#: What a message has of one drill alone: the ten digits in the drill's names, and figures.
_OF_ONE_DRILL = re.compile(rf"(?<={re.escape(DRILL)}\.)[0-9a-f]{{10}}|\d+(?:[.,]\d+)*")


class FindingSeverity(StrEnum):
    """How much a finding weighs: critical findings fail a drill, major ones keep it from passing."""

    CRITICAL = "critical"
    MAJOR = "major"


class FindingState(StrEnum):
    """What became of a finding."""

    OPEN = "open"
    CLOSED = "closed"
    ACCEPTED = "accepted"


@dataclass(frozen=True)
class DrillFinding:
    """Something that a drill found wrong.

    Attributes:
        id: short code, the same in each drill that finds the same fault.
        text: what is wrong, with what was seen.
        owner, due: who mends it and until when (YYYY-MM-DD); None: not stated.
        by: who closed or accepted the finding, or reported it.
        answer: why it was accepted, or what was done.
        heading: the page and heading that say what to do.
        found_in: id of the first drill that found it.
    """

    id: str
    severity: FindingSeverity
    text: str
    owner: str | None = None
    due: str | None = None
    state: FindingState = FindingState.OPEN
    by: str | None = None
    answer: str = ""
    heading: str = PAGE
    found_in: str = ""

    @property
    def is_open(self) -> bool:
        """Whether the finding is neither closed nor accepted."""
        return self.state is FindingState.OPEN

    def as_dict(self) -> dict[str, Any]:
        """Return the finding as a JSON object, as it stands in the evidence."""
        return {**asdict(self), "severity": self.severity.value, "state": self.state.value}

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> DrillFinding:
        """Return the finding in a row of evidence; what the row lacks, or names unknown words for, has its default."""
        known = {name: row[name] for name in cls.__dataclass_fields__ if row.get(name) is not None}
        severity = FindingSeverity(word) if (word := known.get("severity")) in set(FindingSeverity) else None
        state = FindingState(word) if (word := known.get("state")) in set(FindingState) else FindingState.OPEN
        return cls(**{"text": "", **known, "severity": severity or FindingSeverity.MAJOR, "state": state})


def finding_id(code: str, about: str = "") -> str:
    """Return the id of a finding, such as `F-3FA2C1`: six digits of the SHA-256 of what is wrong and where."""
    return f"F-{hashlib.sha256(f'{code} {about}'.encode()).hexdigest()[:6].upper()}"


def same_in_each_drill(message: str) -> str:
    """Return a message without what differs in two drills with the same fault: the drill's names, and figures."""
    return _OF_ONE_DRILL.sub("N", message)


def open_before(previous: Mapping[str, Any] | None) -> list[DrillFinding]:
    """Return the findings that the last drill left open; [] without a last drill."""
    rows = map(DrillFinding.from_dict, (previous or {}).get("findings") or ())
    return [finding for finding in rows if finding.is_open]


def with_answers(findings: Iterable[DrillFinding], answers: Sequence[FindingAnswer]) -> list[DrillFinding]:
    """Return findings with the owners, dates and states that people gave them; the last answer of a kind counts."""
    answered = {finding.id: finding for finding in findings}
    for answer in answers:
        if answer.id in answered:
            answered[answer.id] = _with_answer(answered[answer.id], answer)
    return list(answered.values())


def _with_answer(finding: DrillFinding, answer: FindingAnswer) -> DrillFinding:
    if answer.state == FindingState.OPEN:
        return replace(finding, owner=answer.owner, due=answer.due)
    return replace(finding, state=FindingState(answer.state), by=answer.by, answer=answer.text)


def reported_findings(answers: Sequence[FindingAnswer], drill_id: str) -> list[DrillFinding]:
    """Return the findings that people reported in their sign-offs."""
    return [
        DrillFinding(finding_id("reported", answer.text), FindingSeverity.MAJOR, answer.text, answer.owner, answer.due,
                heading=f"{PAGE}#finding_reported", found_in=drill_id)
        for answer in answers
        if answer.id == NEW
    ]  # fmt: skip
