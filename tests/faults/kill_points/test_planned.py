"""kill -9 after every journal write, and five processes of every step at once: the same end state."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.support.rounds import (
    COPIED,
    Rounds,
    how_many,
    killed_at_every_point,
    on_a_lab,
    way_back_killed_at_every_point,
)

COPIES = 5


@pytest.fixture(scope="module")
def rounds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rounds]:
    """A lab without Airflow, a workload, and an undisturbed run of it that the check passed."""
    yield from on_a_lab(Rounds, tmp_path_factory)


def test_killed_after_every_journal_write(rounds: Rounds) -> None:
    """Killed after its n-th write and tried again, each step ends as if nothing had happened."""
    wrong, tried = killed_at_every_point(rounds)
    assert not wrong, "\n".join(wrong)
    assert tried > 50


def test_the_way_back_killed_after_every_journal_write(rounds: Rounds) -> None:
    """Killed while it gives the source back: tried again, everything is as it was found."""
    wrong, writes = way_back_killed_at_every_point(rounds)
    assert not wrong, "\n".join(wrong)
    assert writes > 5


def test_five_copies_of_every_step(rounds: Rounds) -> None:
    """One of the five acts, the others stop or find it done; the end state is that of one copy."""
    wrong = []
    for number in range(1, how_many(100) + 1):
        run, copies = (
            rounds.fresh() if number == 1 else rounds.continued("approve_failover"),
            {step: {"copies": COPIES} for step in COPIED},
        )
        after = None if number == 1 else "approve_failover"
        done = rounds.driver.forward(run, after=after, until="stop_mirror_maker", **copies)
        wrong += [] if done else [f"round {number}: {run.texts}"]
        run = rounds.continued("review_translation")
        evidence = rounds.driver.whole(run, after="review_translation", **copies, close_procedure={"copies": COPIES})
        found = rounds.differences(run, evidence)
        back = rounds.continued("review_translation")
        rounds.driver.step(back, "return_to_source", copies=COPIES)
        rounds.driver.step(back, "close_procedure", copies=COPIES)
        found += rounds.returned(back)
        wrong += [f"round {number}: {text}" for text in found]
        print(f"round {number}: {found or 'same end state'}", flush=True)
    assert not wrong, "\n".join(wrong)
