"""The independent judge: it knows the ground truth and reads the real clusters; it shares nothing with the product."""

from __future__ import annotations

from lab.judge.court import Judge
from lab.judge.exhibits import Case
from lab.judge.findings import Finding, Verdict

__all__ = ["Case", "Finding", "Judge", "Verdict"]
