"""Settings of metrics: a connection, a file, or both; a run is not bound to them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from kafka_dr.config.settings import load_topology
from kafka_dr.errors import BadInput
from kafka_dr.procedure.binding import topology_digest


def stated(bench: Any, metrics: Any) -> Any:
    """The topology with these metrics."""
    document = json.loads(bench.topology.read_text())
    bench.topology.write_text(json.dumps({**document, "metrics": metrics}))
    return load_topology(bench.topology)


def test_a_relative_file_is_beside_the_topology(bench: Any) -> None:
    """As evidence and routing record are."""
    assert stated(bench, {"file": "m/x.prom"}).metrics.file == str(bench.folder / "m" / "x.prom")
    assert stated(bench, {"connection": "c", "file": "/m/x.prom"}).metrics.file == "/m/x.prom"
    assert stated(bench, {"connection": "c"}).metrics.file is None


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "name a `connection`"),
        ({"file": "/m/x.txt"}, "must end in .prom"),
        ({"token": "x"}, "move the value to"),
    ],
)
def test_settings_that_would_do_nothing_are_refused(bench: Any, settings: Any, said: str) -> None:
    """With what is allowed."""
    with pytest.raises(BadInput) as refused:
        stated(bench, settings)
    assert said in str(refused.value)


def test_a_scrape_that_is_added_during_a_run_does_not_stop_it(bench: Any) -> None:
    """The digest to which runs are bound leaves metrics out."""
    assert topology_digest(stated(bench, {"connection": "c"})) == topology_digest(stated(bench, None))
