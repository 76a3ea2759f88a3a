"""A real planned failover after MirrorMaker 2 was killed under load, checked by independent code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lab.rehearsal.planned import rehearsal_under_load
from tests.support.rehearsals import SEED, concluded_without_findings


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("policy", ["identity", "default"])
def test_repeated_blocks_skip_nobody(
    policy: str, isolation: str, fresh_lab: Callable[..., Path], tmp_path: Path
) -> None:
    """Killed with -9 under 20,000 records/s: none skipped, every position exact, repeats counted apart."""
    with rehearsal_under_load(fresh_lab(policy, isolation=isolation), tmp_path, SEED, rate=20_000) as rehearsal:
        rehearsal.restart_mirror_maker()
        concluded_without_findings(rehearsal)
