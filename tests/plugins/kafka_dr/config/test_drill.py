"""Settings of drills in the topology: workers and clients belong together, and limits are limits."""

from __future__ import annotations

from typing import Any

import pytest
from kafka_dr.config.drill import DrillSettings
from pydantic import ValidationError

from tests.support.drills.drill_bench import DRILL

PRIMARY = {"primary": "connection"}


def test_what_need_not_be_stated() -> None:
    """The defaults are those of the page; without workers a drill observes."""
    made = DrillSettings(environment="production")
    assert (made.scheduled, made.time_to_live_seconds, made.records, made.partitions) == (True, 7200, 5000, 3)
    assert made.most_bytes == 1_000_000_000 and not made.connect and not made.clients


@pytest.mark.parametrize(
    "changes",
    [
        {"clients": PRIMARY},
        {"clients": {}},
        {"connect": PRIMARY},
        {"principals": []},
        {"environment": ""},
        {"environment": "Production"},
        {"environment": "a b"},
        {"records": 0},
        {"records": "5000"},
        {"partitions": 0},
        {"time_to_live_seconds": 0},
        {"most_bytes": 1},
        {"workers": PRIMARY},
    ],
)
def test_settings_that_no_drill_could_use_are_refused(changes: dict[str, Any]) -> None:
    """Workers without clients beside them, no principal of the clients, no environment, no limit."""
    assert DrillSettings(**DRILL)
    with pytest.raises(ValidationError):
        DrillSettings(**DRILL | changes)


def test_the_environment_must_be_named() -> None:
    """A drill never guesses on whose clusters it runs."""
    with pytest.raises(ValidationError, match="environment"):
        DrillSettings(**{name: value for name, value in DRILL.items() if name != "environment"})
