"""A real planned failover for each naming policy, judged by code that shares nothing with the product."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.rehearsed import rehearsed_without_findings


@pytest.mark.parametrize("policy", ["identity", "default"])
def test_nothing_is_lost_and_nobody_moved(policy: str, fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """Under load that ignores the drain hook: 0 skipped, every position exact, 0 acknowledged records missing."""
    rehearsed_without_findings(fresh_lab(policy), tmp_path, rate=2_000)
