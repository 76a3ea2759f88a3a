"""Results of the checker: findings (each a violation) and figures (counts by name)."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

EXAMPLES = 5


@dataclass(frozen=True)
class Finding:
    """One violation.

    Args:
        check: the kind of violation, such as `missing` or `skipped`.
        text: what was observed and what was expected.
        group: the group's id; None if the violation concerns no group.
        topic: the topic, by its name on the cluster of the violation; None if no topic is concerned.
        partition: the partition; None if no single partition is concerned.
        offset: an offset or position on this partition; None if no single offset is concerned.
        record: the record's id, which its producer wrote into the record; None if the id is unknown.
    """

    check: str
    text: str
    group: str | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    record: str | None = None

    def __str__(self) -> str:
        partition_text = (
            f"{self.topic}-{self.partition}" if self.topic is not None and self.partition is not None else self.topic
        )
        fields = {"group": self.group, "at": partition_text, "offset": self.offset, "record": self.record}
        parts = [f"{name} {value}" for name, value in fields.items() if value is not None]
        return f"[{self.check}] {', '.join(parts)}: {self.text}" if parts else f"[{self.check}] {self.text}"


@dataclass
class CheckResult:
    """The result of a check: all findings (violations), and figures (counts by name)."""

    findings: list[Finding] = field(default_factory=list)
    figures: Counter[str] = field(default_factory=Counter)

    @property
    def passed(self) -> bool:
        """Whether the check has passed, that is, has no findings."""
        return not self.findings

    def add(self, findings: list[Finding], **figures: int) -> None:
        """Add the findings of one check, and add its figures to the figures of the same names."""
        self.findings += findings
        self.figures.update(figures)

    def document(self) -> dict[str, Any]:
        """Return `passed`, `figures` and `findings` as plain data for a JSON file."""
        return {
            "passed": self.passed,
            "figures": dict(self.figures),
            "findings": [asdict(finding) for finding in self.findings],
        }

    def lines(self, limit: int = 50) -> list[str]:
        """Return the findings as lines: at most `limit` per check, and then the count of omitted findings per check."""
        per_check: Counter[str] = Counter()
        shown = []
        for finding in self.findings:
            per_check[finding.check] += 1
            if per_check[finding.check] <= limit:
                shown.append(str(finding))
        omitted = {check: count - limit for check, count in per_check.items() if count > limit}
        return shown + [f"[{check}] and {count} more" for check, count in omitted.items()]


def first_examples(values: list[Any]) -> str:
    """Return a text with the first values (at most `EXAMPLES`) and the count of the other values."""
    shown = ", ".join(str(value) for value in values[:EXAMPLES])
    return shown if len(values) <= EXAMPLES else f"{shown} and {len(values) - EXAMPLES} more"
