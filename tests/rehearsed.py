"""A rehearsal that must come out without a finding; what integration and fault tests have in common."""

from __future__ import annotations

import os
from pathlib import Path

from lab.rehearsal import rehearse

SEED = int(os.environ.get("SWITCHBACK_SEED", "4177"))


def rehearsed_without_findings(state: Path, folder: Path, rate: int, kill: bool = False) -> Path:
    """Rehearse on a lab that is up; return the evidence folder of the procedure.

    The judge found 0 skipped, every position exact, 0 acknowledged records missing, and clients that went on.
    """
    verdict, evidence = rehearse(state, folder, SEED, rate, kill)
    assert verdict.passed, "\n".join(verdict.lines(limit=5))
    assert verdict.figures["exact"] == verdict.figures["positions"] > 0
    assert verdict.figures["acknowledged_by_load"] > rate
    assert verdict.figures["new_records_consumed"] > 0
    return evidence
