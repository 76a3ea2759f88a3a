"""Fixtures of a run whose source was given up."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def lost(make_bench: Any) -> Any:
    """An unplanned run whose source is armed."""
    bench = make_bench(dag_id="unplanned_failover")
    bench.given_up()
    return bench


@pytest.fixture
def ready(make_bench: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An unplanned run that is about to open its target; of its source not even a client can be made."""
    bench = make_bench(dag_id="unplanned_failover")
    bench.stopped_without_source(bench.given_up(groups=("billing",), active=("billing",)))
    monkeypatch.delitem(bench.clusters, "primary")
    return bench
