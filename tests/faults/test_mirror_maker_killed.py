"""A real planned failover after MirrorMaker 2 was killed under load, judged by code that shares nothing with the product."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.rehearsal import Rehearsal

SEED = int(os.environ.get("SWITCHBACK_SEED", "4177"))
RATE = 20_000


@pytest.mark.parametrize("policy", ["identity", "default"])
def test_repeated_blocks_skip_nobody(policy: str, fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """Killed with -9 under load that ignores the drain hook: 0 skipped, every position exact, repeats counted apart."""
    rehearsal = Rehearsal(fresh_lab(policy), tmp_path, SEED, RATE)
    try:
        rehearsal.seed_topics()
        rehearsal.start_clients()
        rehearsal.start_load()
        rehearsal.restart_mirror_maker()
        verdict = rehearsal.conclude("approver")
    finally:
        rehearsal.stop()
    assert verdict.passed, "\n".join(verdict.lines(limit=5))
    assert verdict.figures["exact"] == verdict.figures["positions"] > 0
    assert verdict.figures["acknowledged_by_load"] > RATE
    assert verdict.figures["new_records_consumed"] > 0
