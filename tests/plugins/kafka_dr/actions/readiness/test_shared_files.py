"""Before the fence it is shown that one machine reads what another wrote, or the run is refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowException
from kafka_dr.actions.readiness import shared_files
from kafka_dr.actions.readiness.shared_files import FilesSeen, see_files
from kafka_dr.steps.shared.open_procedure import OpenProcedure
from kafka_dr.vocabulary import Step

from tests.support.bench import Bench

REMOTE = ("CeleryExecutor", "KubernetesExecutor", "LocalExecutor,CeleryExecutor", "my.own.Executor")


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Moves this process to a machine of another name."""
    return lambda name: monkeypatch.setattr(shared_files.socket, "gethostname", lambda: name)


def opened(bench: Bench, run_id: str = "r1") -> None:
    """Execute the first step of a run."""
    OpenProcedure(task_id=Step.OPEN_PROCEDURE.value).execute(bench.context(run_id))


@pytest.mark.parametrize("executor", ["LocalExecutor", "airflow.executors.local_executor.LocalExecutor", *REMOTE])
def test_two_machines_that_read_one_token_show_it(bench: Bench, on: Callable[[str], None], executor: str) -> None:
    """Whatever the executor."""
    on("worker-1")
    opened(bench)
    on("worker-2")
    assert see_files(bench.procedure(), executor) == FilesSeen([], ["worker-1", "worker-2"])


@pytest.mark.parametrize("executor", REMOTE)
def test_one_machine_shows_nothing(bench: Bench, on: Callable[[str], None], executor: str) -> None:
    """Both steps ran there by chance; with the local executor there is no other one."""
    on("worker-1")
    opened(bench)
    (blocker,) = see_files(bench.procedure(), executor).blockers
    assert blocker.gate == "files_are_shared" and "was seen on worker-1 alone" in blocker.seen
    assert "`store` in the topology" in blocker.next_step
    assert see_files(bench.procedure(), "LocalExecutor").blockers == []


def test_a_folder_that_only_one_machine_has_is_refused(bench: Bench, on: Callable[[str], None]) -> None:
    """With the names of both machines; also with the local executor of two schedulers."""
    on("worker-1")
    opened(bench)
    shutil.rmtree(bench.procedure().artifacts.folder)
    on("worker-2")
    (blocker,) = see_files(bench.procedure(), "LocalExecutor").blockers
    assert "open_procedure ran on worker-1, check_readiness on worker-2" in blocker.seen
    assert "the file is missing" in blocker.seen


def test_a_store_shows_it(make_bench: Callable[..., Bench], on: Callable[[str], None], tmp_path: Path) -> None:
    """The token of another machine comes from there, and one machine alone is no reason to refuse."""
    bench = make_bench(store={"uri": f"file://{tmp_path}/store"})
    on("worker-1")
    opened(bench)
    assert see_files(bench.procedure(), "CeleryExecutor").blockers == []
    shutil.rmtree(bench.procedure().artifacts.folder)
    on("worker-2")
    assert see_files(bench.procedure(), "CeleryExecutor") == FilesSeen([], ["worker-1", "worker-2"])


def test_a_store_that_is_away_refuses_before_anything_is_touched(
    make_bench: Callable[..., Bench], tmp_path: Path
) -> None:
    """No lease is taken."""
    (tmp_path / "store").write_text("no folder")
    bench = make_bench(store={"uri": f"file://{tmp_path}/store"}, deadlines={"outage_seconds": 0.1})
    with pytest.raises(AirflowException, match="writing in the store failed"):
        opened(bench)
    assert bench.journal.lease("primary+standby") is None


def test_an_earlier_run_on_two_machines_shows_it(bench: Bench, on: Callable[[str], None]) -> None:
    """With this evidence folder; one with another folder, or on one machine, shows nothing."""
    on("worker-1")
    opened(bench)
    evidence, procedure = bench.procedure().topology.evidence, bench.procedure()
    for machines, folder, blockers in (
        (["worker-1"], evidence, 1),
        (["worker-1", "worker-2"], "/elsewhere", 1),
        (["worker-1", "worker-2"], evidence, 0),
    ):
        bench.done(procedure, Step.CHECK_READINESS, files_seen_on=machines, files_at=folder)
        assert len(see_files(bench.procedure(), "CeleryExecutor").blockers) == blockers
