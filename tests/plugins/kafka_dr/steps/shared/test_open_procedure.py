"""Opening a procedure: the lease, and what a refusal leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from kafka_dr.steps.shared.close_procedure import CloseProcedure
from kafka_dr.steps.shared.open_procedure import OpenProcedure
from kafka_dr.steps.shared.return_to_source import ReturnToSource
from kafka_dr.vocabulary import Entry, Step

STEP = Step.OPEN_PROCEDURE


def open_(bench: Any, run_id: str = "r1") -> dict[str, Any]:
    """Execute the step for a run."""
    return OpenProcedure(task_id=STEP.value).execute(bench.context(run_id))


def written(bench: Any) -> dict[Path, bytes]:
    """The files of all runs, and their content."""
    return {path: path.read_bytes() for path in (bench.folder / "evidence").rglob("*") if path.is_file()}


def test_the_first_run_takes_the_lease(bench: Any) -> None:
    """The lease is taken, and what the run is for stands in the journal under its epoch."""
    open_(bench)
    lease = bench.journal.lease("primary+standby")
    assert (lease.holder, lease.epoch, lease.released_at) == ("planned_failover-r1", 1, None)
    assert bench.kinds(STEP) == [Entry.OPENED, Entry.INTENT, Entry.OUTCOME]
    opened = bench.entries(STEP)[0].payload
    assert (opened["source"], opened["target"], opened["reason"]) == ("primary", "standby", "maintenance")


OTHERS = {
    "exclude_groups": {"billing": "why"},
    "abort_open_transactions": False,
    "start_reverse_replication": True,
    "acknowledge_recreated_topics": False,
    "max_fence_seconds": 60,
    "transaction_seconds": 60,
    "drain_seconds": 60,
    "zero_lag_seconds": 60,
}


@pytest.mark.parametrize(("name", "value"), OTHERS.items(), ids=OTHERS)
def test_what_only_a_planned_failover_takes_is_refused_by_name(
    make_bench: Callable[..., Any], name: str, value: Any
) -> None:
    """It would have no effect, and who gave it would believe that it has: nothing is opened. A null says nothing."""
    bench = make_bench(dag_id="unplanned_failover")
    bench.params |= {name: value}
    with pytest.raises(AirflowFailException, match=f"'{name}': this procedure does not take it; params: ") as refused:
        open_(bench)
    assert name not in str(refused.value).split("params: ")[1] and bench.entries(STEP) == []
    assert bench.journal.lease("primary+standby") is None
    bench.params |= {name: None}
    open_(bench)
    assert bench.kinds(STEP)[0] == Entry.OPENED


def test_opening_twice_changes_nothing(bench: Any) -> None:
    """A second copy of the task ends in the same state."""
    open_(bench)
    open_(bench)
    assert bench.journal.lease("primary+standby").epoch == 1 and len(bench.entries(STEP)) == 3


def test_a_held_pair_is_refused_in_either_direction(bench: Any) -> None:
    """Another procedure holds the pair: refused, naming it, whichever way round source and target are."""
    open_(bench, "r1")
    bench.params = bench.params | {"source": "standby", "target": "primary"}
    with pytest.raises(AirflowFailException, match="planned_failover-r1"):
        open_(bench, "r2")
    assert bench.kinds(STEP, "r2") == [Entry.REFUSAL]
    assert bench.journal.lease("primary+standby").holder == "planned_failover-r1"


def test_a_run_that_has_ended_is_not_opened_again(bench: Any) -> None:
    """Refused and closed; cleared when the pair is free, it would move clients and still be told as refused."""
    open_(bench, "r1")
    with pytest.raises(AirflowFailException):
        open_(bench, "r2")
    with pytest.raises(AirflowFailException):
        CloseProcedure(task_id=Step.CLOSE_PROCEDURE.value).execute(bench.context("r2"))
    bench.journal.release_lease("primary+standby", "planned_failover-r1", 1, "completed")
    with pytest.raises(AirflowFailException, match="This run has ended"):
        open_(bench, "r2")
    assert bench.journal.lease("primary+standby").holder == "planned_failover-r1"
    assert Entry.OPENED not in bench.kinds(STEP, "r2")


WHY = "the site burns"


@pytest.fixture(params=["planned_failover", "unplanned_failover"])
def cooling(request: pytest.FixtureRequest, make_bench: Callable[..., Any]) -> Any:
    """Either procedure, just after one of the pair has ended."""
    bench = make_bench(dag_id=request.param, cool_down_seconds=900)
    open_(bench, "r1")
    bench.journal.release_lease("primary+standby", f"{request.param}-r1", 1, "completed")
    return bench


def test_a_cool_down_is_refused(cooling: Any) -> None:
    """Right after a procedure ended no other one begins; the message says what ended, how long it lasts, and how to
    go on all the same.
    """
    with pytest.raises(
        AirflowFailException, match=rf"a cool-down runs.*{cooling.dag_id}-r1 ended as completed at .*, in (900|899) s"
    ) as refused:
        open_(cooling, "r2")
    assert "start a new run with the reason in acknowledge_cool_down" in str(refused.value)
    assert cooling.kinds(STEP, "r2") == [Entry.REFUSAL]
    assert cooling.entries(STEP, "r2")[0].payload["error"] == "NotReady"
    assert cooling.journal.lease("primary+standby").epoch == 1


def test_a_cool_down_is_acknowledged(cooling: Any) -> None:
    """The lease is taken, and the reason stands in the opening entry beside what ended when, and until when the
    cool-down lasts.
    """
    cooling.params["acknowledge_cool_down"] = f"  {WHY} "
    open_(cooling, "r2")
    lease = cooling.journal.lease("primary+standby")
    assert (lease.holder, lease.epoch, lease.released_at) == (f"{cooling.dag_id}-r2", 2, None)
    told = cooling.entries(STEP, "r2")[0].payload["cool_down"]
    assert (told["procedure_id"], told["outcome"], told["acknowledged"]) == (f"{cooling.dag_id}-r1", "completed", WHY)
    assert datetime.fromisoformat(told["ends_at"]) - datetime.fromisoformat(told["ended_at"]) == timedelta(seconds=900)
    assert cooling.procedure("r2").progress.cool_down == told


def test_an_acknowledged_run_that_was_refused_frees_nobody_else(cooling: Any) -> None:
    """The next one without a reason is refused because of the first one's end still."""
    cooling.params["acknowledge_cool_down"] = WHY
    open_(cooling, "r2")
    cooling.journal.release_lease("primary+standby", f"{cooling.dag_id}-r2", 2, "refused")
    cooling.params["acknowledge_cool_down"] = None
    with pytest.raises(AirflowFailException, match=f"{cooling.dag_id}-r1 ended as completed"):
        open_(cooling, "r3")


def test_an_acknowledgement_that_was_killed_after_its_lease_is_written_all_the_same(cooling: Any) -> None:
    """Begun again, the step finds the lease its own, and the cool-down by the leases."""
    cooling.params["acknowledge_cool_down"] = WHY
    cooling.journal.take_lease("primary+standby", f"{cooling.dag_id}-r2")
    open_(cooling, "r2")
    told = cooling.entries(STEP, "r2")[0].payload["cool_down"]
    assert (told["procedure_id"], told["acknowledged"]) == (f"{cooling.dag_id}-r1", WHY)


def test_a_reason_without_a_cool_down_is_kept_and_decides_nothing(bench: Any) -> None:
    """It stands among the params alone: no approver is told of a cool-down that there was not."""
    bench.params["acknowledge_cool_down"] = WHY
    open_(bench)
    opened = bench.entries(STEP)[0].payload
    assert opened["cool_down"] is None and opened["request"]["choices"] == {"acknowledge_cool_down": WHY}
    assert bench.procedure().progress.cool_down is None


def test_another_procedures_lease_is_not_acknowledged(bench: Any) -> None:
    """The reason answers a cool-down, nothing else."""
    open_(bench, "r1")
    bench.params["acknowledge_cool_down"] = WHY
    with pytest.raises(AirflowFailException, match="another procedure holds the lease"):
        open_(bench, "r2")


@pytest.mark.parametrize("bad", ["", "  ", "a\nb", "a\u202eb", "x" * 501, 3, True, ["x"]])
def test_an_acknowledgement_is_a_reason_in_visible_words(bench: Any, bad: Any) -> None:
    """Like the run's reason: text on one line, not empty, not long."""
    bench.params["acknowledge_cool_down"] = bad
    with pytest.raises(AirflowFailException, match="acknowledge_cool_down"):
        open_(bench)
    assert bench.entries(STEP) == []


def test_a_crash_between_lease_and_journal_is_made_good(bench: Any) -> None:
    """Killed right after taking the lease, the step goes on under a newer epoch when it runs again."""
    bench.journal.take_lease("primary+standby", "planned_failover-r1")
    open_(bench)
    assert bench.entries(STEP)[-1].payload["epoch"] == 2
    bench.procedure().authority.hold()


def refused(step: Any, bench: Any, run_id: str) -> None:
    """Run a step, and expect it to be refused for the run's id."""
    with pytest.raises(AirflowFailException, match="gives the same procedure id as the run id of another run.*move:1"):
        step.execute(bench.context(run_id))


@pytest.mark.parametrize("ended", [False, True], ids=["running", "ended"])
def test_two_runs_never_share_a_procedure(bench: Any, ended: bool) -> None:
    """Two run ids that differ only in replaced characters: no step of the second acts or writes under the first
    one's journal and lease.
    """
    open_(bench, "move:1")
    if ended:
        bench.journal.release_lease("primary+standby", "planned_failover-move_1", 1, "refused")
    files = written(bench)
    before, lease = bench.journal.entries(), bench.journal.lease("primary+standby")
    refused(OpenProcedure(task_id=STEP.value), bench, "move+1")
    refused(ReturnToSource(task_id=Step.RETURN_TO_SOURCE.value), bench, "move+1")
    refused(CloseProcedure(task_id=Step.CLOSE_PROCEDURE.value), bench, "move+1")
    assert bench.journal.entries() == before and bench.journal.lease("primary+standby") == lease
    assert written(bench) == files and len(files) == 1


def test_the_first_of_two_like_runs_goes_on(bench: Any) -> None:
    """The refused second run changes nothing for the first."""
    open_(bench, "move:1")
    refused(OpenProcedure(task_id=STEP.value), bench, "move+1")
    assert open_(bench, "move:1")["procedure_id"] == "planned_failover-move_1"


@pytest.mark.parametrize(
    ("changes", "seen"),
    [
        ({"clear_number": 1}, "it was cleared before it was opened"),
        ({"run_after": datetime.now(UTC) - timedelta(days=2)}, "s ago, and its start counts for 86400 s"),
    ],
)
def test_nobody_else_lets_an_old_run_begin(bench: Any, changes: dict[str, Any], seen: str) -> None:
    """Its starter ended it before it began, or forgot it; who lets it begin would be the starter's second person."""
    context = bench.context()
    vars(context["dag_run"]).update(changes)
    with pytest.raises(AirflowFailException, match="This run begins without its starter") as refused:
        OpenProcedure(task_id=STEP.value).execute(context)
    assert seen in str(refused.value)
    assert bench.journal.lease("primary+standby") is None and bench.kinds(STEP) == [Entry.REFUSAL]


def test_a_run_that_was_opened_may_be_cleared(bench: Any) -> None:
    """After the opening of the target clearing a red step is the way forward; the opening itself is done."""
    open_(bench)
    context = bench.context()
    context["dag_run"].clear_number = 1
    OpenProcedure(task_id=STEP.value).execute(context)
    assert len(bench.entries(STEP)) == 3
