"""A drill beside the last one: seconds with change in percent, sizes, versions, configuration, verdicts."""

from __future__ import annotations

from typing import Any

import pytest
from kafka_dr.domain.drill.comparison import change_percent, compare_drills
from kafka_dr.domain.drill.section import drill_section

from tests.support.drills.canary_drill import FINGERPRINT, good_facts, last_drill


def test_the_first_drill_is_compared_with_nothing() -> None:
    """Without a last drill there is no comparison, and nothing is called unchanged."""
    assert drill_section(good_facts())["comparison"] is None


def test_every_step_stands_beside_its_seconds_of_the_last_drill() -> None:
    """Steps of passes, whole passes and downtimes, each with the change in percent."""
    before = last_drill()
    now = drill_section(good_facts(previous=before))
    rows = {(row["pass"], row["step"]): row for row in now["comparison"]["seconds"]}
    assert len(rows) == sum(len(one["steps"]) + 2 for one in now["passes"])
    row = rows["planned_failover", "open_procedure"]
    assert (row["before"], row["now"]) == (3.4, 2.6) and row["change_percent"] == pytest.approx(-23.5)
    assert rows["failback", "downtime"]["now"] == 41.2


def test_a_step_that_only_one_drill_had_is_listed() -> None:
    """A new step, and one that has gone: the other side is null, and so is the change."""
    now = {"passes": [{"name": "p", "seconds": {}, "steps": [{"id": "new", "seconds": 2.0}]}]}
    before = {"passes": [{"name": "p", "seconds": {}, "steps": [{"id": "gone", "seconds": 1.0}]}]}
    rows = {row["step"]: row for row in (compare_drills(now, before) or {})["seconds"]}
    assert [rows["new"][side] for side in ("before", "now", "change_percent")] == [None, 2.0, None]
    assert [rows["gone"][side] for side in ("before", "now", "change_percent")] == [1.0, None, None]


@pytest.mark.parametrize(
    ("before", "now", "change"),
    [(4.0, 5.0, 25.0), (4.0, 3.0, -25.0), (0.0, 3.0, None), (None, 3.0, None), (3.0, None, None)],
)
def test_change_in_percent(before: float | None, now: float | None, change: float | None) -> None:
    """Growth is positive; without a figure, or from zero, there is none."""
    assert change_percent(before, now) == change


def test_versions_and_sizes_stand_side_by_side() -> None:
    """Also those that did not change, so that a reader sees that they were compared."""
    comparison = drill_section(good_facts(previous=last_drill()))["comparison"]
    versions = {row["name"]: (row["before"], row["now"]) for row in comparison["versions"]}
    assert versions["kafka.primary"] == ("4.2.0", "4.3.1") and versions["spark"] == ("4.2.0", "4.2.0")
    assert {"name": "records", "before": 20000, "now": 20000} in comparison["sizes"]
    assert comparison["verdict"] == {"before": "conditional", "now": "conditional"}


def test_configuration_is_compared_by_the_classes_of_the_fingerprint() -> None:
    """What voids a drill, kinds that it did not have, and what is only told."""
    changed: dict[str, Any] = {
        "voiding": {**FINGERPRINT["voiding"], "naming.policy": "IdentityReplicationPolicy"},
        "sampled": {**FINGERPRINT["sampled"], "acls": ["ALLOW READ TOPIC *", "DENY WRITE TOPIC LITERAL"]},
        "informational": {**FINGERPRINT["informational"], "topics": "50"},
    }
    before = drill_section(good_facts())
    found = drill_section(good_facts(previous=before, fingerprint=changed))["comparison"]["configuration"]
    assert {name: len(rows) for name, rows in found.items()} == {"voiding": 1, "sampled": 1, "informational": 1}
    assert (
        "IdentityReplicationPolicy" in found["voiding"][0]
        and "at the last drill 48, now 50" in found["informational"][0]
    )
    unknown = drill_section(good_facts(previous={**before, "fingerprint": None}))["comparison"]["configuration"]
    assert unknown is None
