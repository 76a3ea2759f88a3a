"""Approvals, closings and anchors carry the signature of the journal's key, where the topology names one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowFailException
from kafka_dr.commands import verify_evidence
from kafka_dr.domain.anchors import Anchor, read_anchor
from kafka_dr.hooks.journal.tables import JournalEntry
from kafka_dr.hooks.signing import Signer, make_key
from kafka_dr.procedure.entries import ApprovalGiven, ProcedureClosed, facts_of
from kafka_dr.steps.planned.approve_failover import ApproveFailover
from kafka_dr.steps.shared.close_procedure import CloseProcedure
from kafka_dr.steps.shared.open_procedure import OpenProcedure
from kafka_dr.vocabulary import APPROVE, Entry, Step

from tests.plugins.kafka_dr.procedure.test_anchors import act, rewrite
from tests.support.bench import Bench


@pytest.fixture
def key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A private key, which steps find."""
    path = tmp_path / "journal.pem"
    make_key(path)
    monkeypatch.setenv("SWITCHBACK_JOURNAL_KEY", str(path))
    return path


@pytest.fixture
def bench(make_bench: Callable[..., Bench], key: Path) -> Bench:
    """Two clusters, with a journal whose public key the topology names."""
    return make_bench(journal={"connection": "journal", "public_keys": [Signer.of_file(key).public_key]})


def approve_and_close(bench: Bench) -> Path:
    """Let bob approve a run's plan, and close the run, which then has failed; return its folder."""
    procedure = bench.planned()
    gate = ApproveFailover(task_id=Step.APPROVE_FAILOVER.value)
    gate.execute_complete(bench.context(), {"chosen_options": [APPROVE]})
    with pytest.raises(AirflowFailException):
        CloseProcedure(task_id=Step.CLOSE_PROCEDURE.value).execute(bench.context())
    return procedure.artifacts.folder


def facts(bench: Bench) -> tuple[tuple[JournalEntry, ApprovalGiven], tuple[JournalEntry, ProcedureClosed]]:
    """The approval and the closing in the journal."""
    entries = bench.journal.entries()
    (approval,), (closing,) = facts_of(entries, ApprovalGiven), facts_of(entries, ProcedureClosed)
    return approval, closing


def test_approvals_and_closings_are_signed(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """And verified; nothing warns."""
    folder = approve_and_close(bench)
    (_, approval), (_, closed) = facts(bench)
    assert approval.signature and closed.signature and approval.unsigned is closed.unsigned is None
    assert verify_evidence.main([str(folder), "--journal"]) == 0, capsys.readouterr()
    assert '"warnings": []' in (folder / "evidence.json").read_text()


@pytest.mark.parametrize("which", [0, 1])
def test_a_forged_entry_is_named_even_if_all_anchors_were_forged_too(
    bench: Bench, which: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who has full rights on database and clusters does not have the key."""
    folder = approve_and_close(bench)
    entry, _ = facts(bench)[which]
    field = ("by", "outcome")[which]
    rewrite(bench, entry.sequence, lambda payload: {**payload, field: "returned"})
    for cluster in bench.clusters.values():
        cluster.anchors.values.clear()
    assert verify_evidence.main([str(folder), "--journal"]) == 1
    said = capsys.readouterr().out
    assert f"entry {entry.sequence} ({entry.kind} of {entry.step}) has a signature that is none of" in said


def test_an_entry_of_another_run_cannot_be_taken_over(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """The signature covers the procedure."""
    folder = approve_and_close(bench)
    (entry, _), _ = facts(bench)
    other = bench.procedure().signatures.sign_fact(
        "planned_failover-another", entry.step, ApprovalGiven.from_payload(entry.payload | {"signature": None})
    )
    rewrite(bench, entry.sequence, lambda payload: {**payload, "signature": other.signature})
    assert verify_evidence.main([str(folder), "--journal"]) == 1
    assert "has a signature that is none of" in capsys.readouterr().out


AWAY: dict[str, Callable[[pytest.MonkeyPatch, Path], object]] = {
    "the environment has no SWITCHBACK_JOURNAL_KEY": lambda patch, _: patch.delenv("SWITCHBACK_JOURNAL_KEY"),
    "No such file": lambda _, key: key.unlink(),
    "other users have rights on it": lambda _, key: key.chmod(0o644),
    "which the topology does not name": lambda _, key: (key.unlink(), make_key(key)),
}


@pytest.mark.parametrize("why", AWAY)
def test_a_key_that_is_away_stops_nothing_and_is_named(
    bench: Bench, key: Path, why: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The evidence begins with what is unsigned, and verify_evidence names it."""
    AWAY[why](monkeypatch, key)
    folder = approve_and_close(bench)
    (_, approval), (_, closed) = facts(bench)
    assert approval.signature is closed.signature is None
    assert why in str(approval.unsigned) and why in str(closed.unsigned)
    first = (folder / "evidence.json").read_text()[:300]
    assert "What approve_failover recorded is not signed" in first
    assert verify_evidence.main([str(folder), "--journal"]) == 1
    assert capsys.readouterr().out.count("is unsigned: ") == 2


def test_without_a_public_key_nothing_is_signed(make_bench: Callable[..., Bench], key: Path) -> None:
    """And nothing is missed."""
    bench = make_bench()
    folder = approve_and_close(bench)
    (_, approval), _ = facts(bench)
    assert approval.signature is approval.unsigned is None
    assert '"warnings": []' in (folder / "evidence.json").read_text()


def anchors_of(bench: Bench) -> list[Anchor]:
    """The anchors on the target."""
    return [anchor for value in bench.clusters["standby"].anchors.values if (anchor := read_anchor(value))]


def test_an_acceptance_without_the_key_does_not_count(bench: Bench) -> None:
    """Somebody who writes to the topic cannot make a journal be accepted."""
    OpenProcedure(task_id=Step.OPEN_PROCEDURE.value).execute(bench.context())
    newest = anchors_of(bench)[-1]
    assert newest.signature
    forged = {**vars(newest), "generation": 1, "sequence": 1, "hash": "f" * 64, "accepted": "mallory: x"}
    bench.clusters["standby"].anchors.values.append(Anchor(**forged).as_bytes())
    with pytest.raises(AirflowFailException, match="acted"):
        act(bench)
    assert [e.kind for e in bench.journal.entries()][-1] == Entry.FAILURE
