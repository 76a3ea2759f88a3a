"""What the judge says: findings, and figures that are no one's fault."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

EXAMPLES = 5


@dataclass(frozen=True)
class Finding:
    """One thing that does not hold, with everything needed to look at it again."""

    check: str
    text: str
    group: str | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    record: str | None = None

    def __str__(self) -> str:
        where = (
            f"{self.topic}-{self.partition}" if self.topic is not None and self.partition is not None else self.topic
        )
        named = {"group": self.group, "at": where, "offset": self.offset, "record": self.record}
        parts = [f"{name} {value}" for name, value in named.items() if value is not None]
        return f"[{self.check}] {', '.join(parts)}: {self.text}" if parts else f"[{self.check}] {self.text}"


@dataclass
class Verdict:
    """All findings (none means pass), and the figures that were counted on the way."""

    findings: list[Finding] = field(default_factory=list)
    figures: Counter[str] = field(default_factory=Counter)

    @property
    def passed(self) -> bool:
        """Say whether nothing was found."""
        return not self.findings

    def add(self, findings: list[Finding], **figures: int) -> None:
        """Take in what one check found and counted."""
        self.findings += findings
        self.figures.update(figures)

    def document(self) -> dict[str, Any]:
        """Return the verdict as plain data for a JSON file."""
        return {
            "passed": self.passed,
            "figures": dict(self.figures),
            "findings": [asdict(finding) for finding in self.findings],
        }

    def lines(self, limit: int = 50) -> list[str]:
        """Return the findings as lines, checks with many of them cut short with a count."""
        per_check: Counter[str] = Counter()
        shown = []
        for finding in self.findings:
            per_check[finding.check] += 1
            if per_check[finding.check] <= limit:
                shown.append(str(finding))
        cut = {check: count - limit for check, count in per_check.items() if count > limit}
        return shown + [f"[{check}] and {count} more" for check, count in cut.items()]


def first_examples(values: list[Any]) -> str:
    """Return the first few values and how many more there are."""
    shown = ", ".join(str(value) for value in values[:EXAMPLES])
    return shown if len(values) <= EXAMPLES else f"{shown} and {len(values) - EXAMPLES} more"
