"""Fixtures of a planned failover whose source died."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.kafka_dr.actions.loss.dead_source import mirrored, planned


@pytest.fixture
def make(make_bench: Callable[..., Any], without_spark: Any, quick_path: Path) -> Callable[..., Any]:
    """Makes a bench on which both jobs run without Spark, with or without a recorder's archive."""

    def made(recorded: bool = False) -> Any:
        bench = make_bench(**{"recorder": {"archive": f"file://{quick_path}/archive"}} if recorded else {})
        bench.jobs = without_spark(bench)
        return bench

    return made


@pytest.fixture
def died(make: Callable[..., Any]) -> Any:
    """A planned run whose source died after its translation."""
    bench = make()
    mirrored(bench, 100)
    planned(bench)
    return bench
