"""What keeps a flow without a Connect worker from being seeded and started."""

from __future__ import annotations

import pytest
from kafka_dr.domain.readiness.connect_checks import hook_blockers


@pytest.mark.parametrize(
    ("starts", "problem", "reasons"),
    [
        (True, "", []),
        (False, "", ["its stop hook does not start it"]),
        (True, "topic x does not exist", ["Offsets of MirrorMaker 2 of west->east cannot be set"]),
        (False, "topic x does not exist", ["its stop hook does not start it", "cannot be set"]),
    ],
)
def test_both_what_starts_it_and_where_its_offsets_are_must_be_usable(
    starts: bool, problem: str, reasons: list[str]
) -> None:
    """Each is named by itself, with the flow."""
    blockers = list(hook_blockers("west->east", starts, problem))
    assert len(blockers) == len(reasons)
    for blocker, reason in zip(blockers, reasons, strict=True):
        assert reason in blocker.reason and "west->east" in blocker.reason
    assert problem in {"", *(blocker.seen for blocker in blockers)}
