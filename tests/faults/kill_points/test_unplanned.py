"""kill -9 after every journal write of an unplanned failover and its way back: the same end state."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.support.lost_rounds import LostRounds
from tests.faults.support.rounds import killed_at_every_point, on_a_lab, way_back_killed_at_every_point


@pytest.fixture(scope="module")
def rounds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LostRounds]:
    """A lab without Airflow whose source was killed, and an undisturbed run of it that the check passed."""
    yield from on_a_lab(LostRounds, tmp_path_factory)


def test_killed_after_every_journal_write(rounds: LostRounds) -> None:
    """Killed after its n-th write and tried again, each step ends as if nothing had happened."""
    wrong, tried = killed_at_every_point(rounds)
    assert not wrong, "\n".join(wrong)
    assert tried > 40


def test_the_way_back_killed_after_every_journal_write(rounds: LostRounds) -> None:
    """Tried again, the target is closed as it was found, and the message says what stays stopped."""
    wrong, writes = way_back_killed_at_every_point(rounds)
    assert not wrong, "\n".join(wrong)
    assert writes > 3
