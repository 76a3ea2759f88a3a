"""A source that the drill took away is a fault on purpose: it must be noticed, and its loss listed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from kafka_dr.domain.drill.account import planted_faults

from tests.support.drills.canary_drill import good_facts, simulated_loss


def test_only_a_pass_without_source_has_a_fault() -> None:
    """And it is noticed where the pass found the source lost, and listed all that is lost."""
    (fault,) = planted_faults(good_facts().passes)
    assert fault.noticed is True and "40 records without a copy on the list, 0 on no list" in fault.seen


@pytest.mark.parametrize(
    ("changes", "noticed"),
    [
        ({"evidence": None}, None),
        ({"evidence": {"steps": [{"id": "confirm_source_lost", "state": "failed"}]}}, False),
        ({"integrity": None}, None),
        ({"integrity": replace(simulated_loss().integrity or 0, lost_unlisted=1)}, False),  # type: ignore[type-var]
    ],
)
def test_what_was_not_seen_is_not_called_noticed(changes: dict[str, Any], noticed: bool | None) -> None:
    """Unknown is neither."""
    (fault,) = planted_faults([replace(simulated_loss(), **changes)])
    assert fault.noticed is noticed
