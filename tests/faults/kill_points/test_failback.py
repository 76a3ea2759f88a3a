"""kill -9 after every journal write of a failback and its way back, and an old source that dies again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.environment.brokers import start_broker
from lab.environment.connect import start_worker
from lab.rehearsal.round_trip import Leaving, Returning
from tests.faults.support.failback_rounds import HOME, FailbackRounds
from tests.faults.support.rounds import COPIED, killed_at_every_point, on_a_lab, way_back_killed_at_every_point
from tests.faults.support.stepping import BACK
from tests.faults.support.trips import stepped_trips
from tests.support.rehearsals import SEED

#: The Spark jobs and the gates apart: a job changes nothing outside its own folder.
COPIED_BACK = (
    *(step for step in BACK if step in COPIED),
    "fence_returned_cluster",
    "prepare_topics",
    "reconcile_stranded_records",
    "seed_flow_back",
    "start_flow_back",
)
#: Steps before which the old source dies again.
DYING = ("find_stranded_records", "start_flow_back", "wait_for_catch_up", "commit_groups")


@pytest.fixture(scope="module")
def rounds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FailbackRounds]:
    """A lab without Airflow whose source died and came back, and an undisturbed failback that the check passed."""
    yield from on_a_lab(FailbackRounds, tmp_path_factory)


def test_killed_after_every_journal_write(rounds: FailbackRounds) -> None:
    """Killed after its n-th write and tried again, each step ends as if nothing had happened."""
    wrong, tried = killed_at_every_point(rounds)
    assert not wrong, "\n".join(wrong)
    assert tried > 70


def test_the_way_back_killed_after_every_journal_write(rounds: FailbackRounds) -> None:
    """Killed while it gives the new primary back: tried again, clients find it as it was."""
    wrong, writes = way_back_killed_at_every_point(rounds)
    assert not wrong, "\n".join(wrong)
    assert writes > 3


def test_five_copies_of_every_step(rounds: FailbackRounds) -> None:
    """All five start at once; one acts, the others stop themselves or find it done."""
    run = rounds.fresh()
    evidence = rounds.driver.whole(run, **{step: {"copies": 5} for step in COPIED_BACK})
    assert rounds.differences(run, evidence) == []


def test_killed_while_records_flow_back(fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """In each round trip of one lab a step of the way back is killed, and the check finds nothing."""
    with stepped_trips(fresh_lab("identity", airflow=False), tmp_path, SEED, 500, recorded=False) as trips:
        for number, step in enumerate(BACK[1:9]):
            trips.suffers = {}
            away = trips.leave(Leaving(more=10))
            assert away.passed, f"{step}: " + "\n".join(away.lines(limit=5))
            trips.suffers = {step: {"kill_at": 1 + number % 2}}
            back = trips.come_back(Returning(more=10))
            assert back.passed, f"{step}: " + "\n".join(back.lines(limit=5))
            assert trips.last.killed == [step] or number % 2, f"{step} was not killed"


@pytest.mark.parametrize("step", DYING)
def test_the_old_source_dies_once_more(step: str, fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """The run ends in a named state, clients go on, and once the source is back a new run returns them."""
    with stepped_trips(fresh_lab("identity", airflow=False), tmp_path, SEED, 500, recorded=False) as trips:
        assert trips.leave(Leaving(more=10)).passed
        trips.at[step] = lambda: trips.kill_cluster(HOME)
        verdict = trips.come_back(Returning(more=5))
        evidence = trips.driver.evidence(trips.last)
        print(evidence["outcome"], evidence["failing_step"], evidence["reason_for_outcome"], flush=True)
        assert [finding.check for finding in verdict.findings] == ["run"]
        assert evidence["outcome"] in ("refused", "returned", "failed") and evidence["failing_step"] == step
        assert HOME in evidence["reason_for_outcome"]
        # Waits until all of them write and read there.
        trips.start_clients()
        trips.stop()
        start_broker(trips.lab, HOME)
        start_worker(trips.lab, HOME)
        again = trips.come_back(Returning(crashed=True))
        assert again.passed, "\n".join(again.lines(limit=5))
