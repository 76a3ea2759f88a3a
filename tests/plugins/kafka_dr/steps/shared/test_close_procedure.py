"""Closing: evidence whatever the outcome, the lease only in a terminal state, never green for a failed run."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from kafka_dr.commands.verify_evidence import changed_journal
from kafka_dr.domain.canonical_json import digest_of
from kafka_dr.domain.evidence.live_status import live_status
from kafka_dr.procedure.find import run_between
from kafka_dr.steps.shared.close_procedure import CloseProcedure
from kafka_dr.steps.shared.open_procedure import OpenProcedure
from kafka_dr.vocabulary import Entry, Step


def close(bench: Any, run_id: str = "r1") -> dict[str, Any]:
    """Execute the step for a run."""
    return CloseProcedure(task_id=Step.CLOSE_PROCEDURE.value).execute(bench.context(run_id))


def evidence(bench: Any, run_id: str = "r1") -> dict[str, Any]:
    """The evidence on disk."""
    return json.loads((bench.folder / "evidence" / f"planned_failover-{run_id}" / "evidence.json").read_text())


def completed(bench: Any, run_id: str = "r1") -> Any:
    """A run whose last step is done."""
    procedure = bench.planned(run_id)
    bench.done(procedure, Step.START_REVERSE_REPLICATION, started=False)
    return procedure


def lease_is_held(bench: Any) -> bool:
    """Whether somebody holds the pair."""
    return bench.journal.lease("primary+standby").released_at is None


def test_a_completed_run_is_green_and_lets_go(bench: Any) -> None:
    """Evidence and page are written, the lease is released, the task succeeds."""
    completed(bench)
    assert close(bench)["outcome"] == "completed"
    told = evidence(bench)
    assert told["outcome"] == "completed" and not lease_is_held(bench)
    assert digest_of({k: v for k, v in told.items() if k != "digest"}) == told["digest"]
    assert "completed" in (bench.folder / "evidence" / "planned_failover-r1" / "evidence.html").read_text()
    assert bench.entries(Step.CLOSE_PROCEDURE)[-1].payload["digest"] == told["digest"]


def test_a_failed_run_stays_red_and_keeps_the_lease(bench: Any) -> None:
    """Stopped in the middle: not green, the message repeats step and reason, and nobody else may take the pair."""
    procedure = bench.planned()
    procedure.authority.write(Step.FENCE_PRODUCERS, Entry.INTENT, {})
    procedure.authority.write(
        Step.FENCE_PRODUCERS,
        Entry.REFUSAL,
        {"error": "FenceNotProven", "reason": "User:app writes", "seen": "", "next_step": ""},
    )
    with pytest.raises(AirflowFailException, match="failed: fence_producers: User:app writes"):
        close(bench)
    assert evidence(bench)["outcome"] == "failed" and lease_is_held(bench)


@pytest.mark.parametrize(("touched", "outcome"), [(True, "returned"), (False, "refused")])
def test_a_run_that_went_back_is_red_and_lets_go(bench: Any, touched: bool, outcome: str) -> None:
    """Returned and refused are terminal: the pair is free, the run is red."""
    bench.done(bench.planned(), Step.RETURN_TO_SOURCE, touched=touched)
    with pytest.raises(AirflowFailException, match=outcome):
        close(bench)
    assert evidence(bench)["outcome"] == outcome and not lease_is_held(bench)


def test_a_run_that_never_held_the_lease_leaves_the_holders_alone(bench: Any) -> None:
    """Refused at the lease: evidence, red, and the holder keeps the pair."""
    bench.opened("r1")
    refusal = {"error": "LeaseLost", "reason": "held", "seen": "r1", "next_step": "wait"}
    bench.journal.append("planned_failover-r2", Step.OPEN_PROCEDURE, Entry.REFUSAL, 0, refusal)
    with pytest.raises(AirflowFailException, match="refused: open_procedure: held"):
        close(bench, "r2")
    assert evidence(bench, "r2")["outcome"] == "refused"
    assert bench.journal.lease("primary+standby").holder == "planned_failover-r1" and lease_is_held(bench)


def test_evidence_names_the_one_before(bench: Any) -> None:
    """Each evidence carries the digest of the last procedure's."""
    completed(bench, "r1")
    close(bench, "r1")
    completed(bench, "r2")
    close(bench, "r2")
    assert evidence(bench, "r1")["previous_digest"] is None
    assert evidence(bench, "r2")["previous_digest"] == evidence(bench, "r1")["digest"]


def test_a_failed_run_that_was_mended_closes_as_completed(bench: Any) -> None:
    """Closed as failed, cleared, gone on to the end, closed again: completed, and the lease is free."""
    procedure = bench.planned()
    with pytest.raises(AirflowFailException):
        close(bench)
    bench.done(procedure, Step.START_REVERSE_REPLICATION)
    assert close(bench)["outcome"] == "completed"
    assert not lease_is_held(bench) and evidence(bench)["outcome"] == "completed"


def test_closing_again_leaves_the_evidence_alone(bench: Any) -> None:
    """A second copy of the task, or a task cleared a day later, ends in the same state."""
    completed(bench)
    close(bench)
    first = evidence(bench)
    close(bench)
    assert evidence(bench) == first


def test_a_procedure_that_lost_the_pair_does_not_touch_its_evidence(bench: Any) -> None:
    """Stopped in the middle, its lease ended by hand, the pair taken by another: closed again, the filed evidence
    stays what the journal knows.
    """
    procedure = bench.planned("r1")
    with pytest.raises(AirflowFailException, match="failed"):
        close(bench, "r1")
    first = evidence(bench)
    bench.journal.release_lease("primary+standby", procedure.id, procedure.lease.epoch, "aborted")
    bench.opened("r2")
    with pytest.raises(AirflowFailException, match="r1"):
        close(bench, "r1")
    assert evidence(bench) == first and lease_is_held(bench)


def test_an_ended_procedure_says_again_how_it_ended(bench: Any) -> None:
    """Closed again after another procedure took the pair: same outcome, same evidence, and the other keeps its
    lease.
    """
    completed(bench, "r1")
    close(bench, "r1")
    first = evidence(bench)
    bench.opened("r2")
    assert close(bench, "r1")["outcome"] == "completed"
    assert evidence(bench) == first and lease_is_held(bench)
    assert bench.kinds(Step.CLOSE_PROCEDURE, "r1") == [Entry.INTENT, Entry.CLOSED]


def test_a_returned_run_stays_red_when_closed_again(bench: Any) -> None:
    """A second close of a run that went back does not turn green."""
    bench.done(bench.planned(), Step.RETURN_TO_SOURCE, touched=True)
    for _ in range(2):
        with pytest.raises(AirflowFailException, match="returned"):
            close(bench)


def test_a_lost_file_does_not_prevent_the_evidence(bench: Any) -> None:
    """Whatever the outcome, there is evidence; a file that is not the journal's is named in it."""
    procedure = bench.stopped()
    (path,) = procedure.artifacts.folder.glob("boundary-*.parquet")
    path.unlink()
    with pytest.raises(AirflowFailException):
        close(bench)
    (problem,) = evidence(bench)["problems"]
    assert evidence(bench)["outcome"] == "failed" and path.name in problem
    assert "This evidence is incomplete" in (procedure.artifacts.folder / "evidence.html").read_text()


def test_a_lease_taken_before_a_crash_is_let_go(bench: Any) -> None:
    """open_procedure died with the lease in hand and is not tried again: refused is terminal, the pair is free."""
    bench.journal.take_lease("primary+standby", "planned_failover-r1")
    with pytest.raises(AirflowFailException):
        close(bench)
    assert not lease_is_held(bench)


def test_a_run_with_bad_params_has_evidence_too(bench: Any) -> None:
    """Refused runs have evidence, also those whose params cannot be used."""
    bench.params = bench.params | {"target": "nowhere"}
    with pytest.raises(AirflowFailException, match="refused: open_procedure: the params cannot be used"):
        close(bench)
    assert evidence(bench)["outcome"] == "refused"


def test_a_run_with_bad_params_is_closed_in_the_journal(bench: Any) -> None:
    """As other refused runs: it names the evidence before it, holds no lease and starts no cool-down; closing again
    changes nothing, and clearing it once the params can be used moves nobody.
    """
    completed(bench, "r1")
    close(bench, "r1")
    held, usable = bench.journal.lease("primary+standby"), bench.params
    bench.params = usable | {"target": "nowhere"}
    for _ in range(2):
        with pytest.raises(AirflowFailException, match="refused: open_procedure"):
            close(bench, "r2")
    entries = bench.journal.entries("planned_failover-r2")
    assert [(e.step, e.kind) for e in entries] == [
        (Step.OPEN_PROCEDURE, Entry.REFUSAL),
        (Step.CLOSE_PROCEDURE, Entry.INTENT),
        (Step.CLOSE_PROCEDURE, Entry.CLOSED),
    ]
    filed = evidence(bench, "r2")
    assert entries[-1].payload["digest"] == filed["digest"] and entries[-1].payload["outcome"] == "refused"
    assert filed["previous_digest"] == evidence(bench, "r1")["digest"]
    assert bench.journal.lease("primary+standby") == held
    assert live_status("planned_failover-r2", entries, datetime.now(UTC)) is None
    verified = run_between(filed["source"], filed["target"], "verify_evidence")
    assert [*changed_journal(verified, filed), *verified.anchors.list_contradictions()] == []
    bench.params = usable
    with pytest.raises(AirflowFailException, match="This run has ended"):
        OpenProcedure(task_id=Step.OPEN_PROCEDURE.value).execute(bench.context("r2"))


def test_evidence_that_the_journal_does_not_know_is_left_alone(bench: Any) -> None:
    """The journal was lost, and the topology broke: the file of what was really done stays."""
    completed(bench)
    close(bench)
    first = evidence(bench)
    bench.url = f"sqlite:///{bench.folder}/new.db"
    bench.params = bench.params | {"target": "nowhere"}
    with pytest.raises(AirflowFailException, match="refused: open_procedure: the params cannot be used"):
        close(bench)
    assert evidence(bench) == first


def test_an_opened_procedure_is_never_called_refused(bench: Any) -> None:
    """Its clients may be fenced when the topology loses a cluster: no evidence says that nothing was touched."""
    bench.stopped()
    bench.params = bench.params | {"target": "nowhere"}
    with pytest.raises(AirflowFailException, match="failed: the procedure was opened"):
        close(bench)
    assert not list((bench.folder / "evidence").rglob("evidence.json")) and lease_is_held(bench)


def test_params_that_became_bad_do_not_touch_filed_evidence(bench: Any) -> None:
    """Closed, and closed again after the topology lost the target: red, and the evidence of what was done stays."""
    completed(bench)
    close(bench)
    first = evidence(bench)
    bench.params = bench.params | {"target": "nowhere"}
    with pytest.raises(AirflowFailException):
        close(bench)
    assert evidence(bench) == first
