"""Which drills schedule_drills closes: nobody has written for them for longer than a drill ever waits."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from kafka_dr.actions.drill import given_up, janitor
from kafka_dr.actions.drill.given_up import close_given_up_drills
from kafka_dr.actions.drill.janitor import clean_left_drills
from kafka_dr.actions.readiness.flow_check import newest_drill
from kafka_dr.config.settings import load_topology
from kafka_dr.errors import KafkaUnavailable
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import DrillCleaned, DrillSignedOff, ProcedureClosed, TryBegun
from kafka_dr.procedure.run import Run
from kafka_dr.steps.drill.close_drill import CloseDrill
from kafka_dr.steps.drill.sign_off_drill import SignOffDrill
from kafka_dr.vocabulary import Entry, Step

from tests.support.bench import PAIR, Bench
from tests.support.drills.drill_bench import drill_bench, prepared_drill

LEASE = f"drill:{PAIR}"


@pytest.fixture
def bench(make_bench: Callable[..., Bench]) -> Bench:
    """Two clusters, with workers for drills beside both."""
    return drill_bench(make_bench)


def later(bench: Bench, days: float) -> Journal:
    """Return the journal as it is read so many days from now."""
    return Journal(bench.url, clock=lambda: datetime.now(UTC) + timedelta(days=days))


def close_given_up(bench: Bench, days: float) -> dict[str, str]:
    """Look for drills that are given up, so many days from now."""
    return close_given_up_drills(later(bench, days), load_topology(bench.topology), bench.connections)


def waits_for_signature(drill: Run) -> Run:
    """Take a drill to its signature: all has run and was cleaned up, and the gate has asked."""
    for step in (Step.CHECK_READINESS, Step.FORECAST, Step.ANNOUNCE_DRILL):
        drill.authority.write(step, Entry.INTENT, {"try": 1})
    record_fact(drill.authority, Step.CLEAN_DRILL, DrillCleaned(cleaned=True))
    drill.authority.write(Step.SIGN_OFF_DRILL, Entry.INTENT, {"try": 1})
    return drill


def test_a_drill_killed_before_it_made_anything_is_closed_as_failed(bench: Bench) -> None:
    """Its lease is free, its evidence and report are written, and the flow's newest drill has failed."""
    drill = bench.opened()
    drill.authority.write(Step.CHECK_READINESS, Entry.INTENT, {"try": 1})
    assert close_given_up(bench, 9) == {drill.id: "closed"}
    lease = bench.journal.lease(LEASE)
    assert lease is not None and (lease.holder, lease.outcome) == (drill.id, "failed")
    evidence = json.loads((drill.artifacts.folder / "evidence.json").read_text())
    reasons = {reason["code"]: reason["text"] for reason in evidence["drill"]["reasons"]}
    assert (evidence["outcome"], evidence["drill"]["verdict"]) == ("failed", "failed")
    assert "check_readiness: given up: the drill has written nothing since" in reasons["drill_stopped"]
    assert evidence["drill"]["left_over"] == [] and evidence["drill"]["retest_due"] is not None
    assert (drill.artifacts.folder / "drill_report.html").exists()
    judged = newest_drill(bench.procedure("r2"))
    assert judged is not None and (judged.procedure_id, judged.verdict) == (drill.id, "failed")
    assert close_given_up(bench, 9) == {} == close_given_up(bench, 99)
    assert later(bench, 10).take_lease(LEASE, "failover_drill-r2")


def test_a_drill_that_waits_for_its_signature_is_closed_after_the_gate(bench: Bench) -> None:
    """The gate is open for seven days, and closes by itself; the drill whose run was deleted is closed a day later."""
    drill = waits_for_signature(bench.opened())
    assert close_given_up(bench, 7.9) == {}
    assert close_given_up(bench, 8.1) == {drill.id: "closed"}
    closed = drill.progress.done(ProcedureClosed)
    assert closed is not None and closed.outcome == "failed" and "sign_off_drill: given up" in closed.reason_for_outcome


def test_a_full_drill_waits_for_people(make_bench: Callable[..., Bench]) -> None:
    """For its notice time and a week for each move, and for its signature."""
    bench = drill_bench(make_bench)
    bench.params |= {"kind": "full"}
    drill = bench.opened()
    drill.authority.write(Step.RUN_PLANNED_FAILOVER, Entry.INTENT, {"try": 1})
    assert close_given_up(bench, 15.9) == {}
    assert close_given_up(bench, 16.1) == {drill.id: "closed"}


def test_a_drill_whose_time_to_live_runs_is_left_alone(bench: Bench) -> None:
    """Its passes may take long; when its time is over it is cleaned up and closed by clean_left_drills."""
    prepared_drill(bench, lives_seconds=20 * 86_400)
    assert close_given_up(bench, 19) == {}


def test_a_drill_whose_clean_up_fails_for_ever_is_closed(bench: Bench) -> None:
    """Otherwise it would hold the lease for ever; what it has left is still looked for every hour."""
    drill = prepared_drill(bench)
    assert close_given_up(bench, 1) == {}
    assert close_given_up(bench, 9) == {drill.id: "closed"}


@pytest.mark.parametrize("step", ["lease", "entries"])
def test_a_drill_that_acts_is_left_alone(bench: Bench, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """A process of it takes a new epoch, or writes, after its newest entry was read: it goes on."""
    drill, judge = bench.opened(), given_up._is_given_up
    other = bench.procedure()

    def acts_meanwhile(*args: Any) -> bool:
        if step == "lease":
            other.lease.take_new_epoch()
        else:
            record_fact(other.authority, Step.CHECK_READINESS, TryBegun(attempt=2))
        return judge(*args)

    monkeypatch.setattr(given_up, "_is_given_up", acts_meanwhile)
    monkeypatch.setattr(Run, "close", lambda _: None)
    if step == "lease":
        # The janitor had read the older epoch before.
        reopen = Run.reopened

        def reopened(*args: Any) -> Run:
            run = reopen(*args)
            assert run.lease.epoch
            return run

        monkeypatch.setattr(Run, "reopened", reopened)
    assert close_given_up(bench, 9) == {}
    lease = bench.journal.lease(LEASE)
    assert lease is not None and lease.holder == drill.id and lease.released_at is None
    assert drill.progress.done(ProcedureClosed) is None


def test_an_older_process_can_write_nothing_afterwards(bench: Bench) -> None:
    """A late answer at its gate changes nothing of a closed drill; its last task says that it has failed."""
    drill = waits_for_signature(bench.opened())
    frozen = bench.procedure()
    assert frozen.lease.epoch
    close_given_up(bench, 9)
    bench.api.answer(Step.SIGN_OFF_DRILL, "Sign off?")
    with pytest.raises(AirflowFailException, match="does not hold the lease"):
        SignOffDrill(task_id="sign_off_drill").execute_complete(bench.context(), {})
    assert drill.progress.facts(DrillSignedOff) == []
    closings = len(drill.progress.facts(ProcedureClosed))
    with pytest.raises(AirflowFailException, match="failed: .*given up"):
        CloseDrill(task_id="close_procedure").execute(bench.context())
    assert len(drill.progress.facts(ProcedureClosed)) == closings == 1


@pytest.mark.parametrize("killed_at", ["remove_drill", "file_drill", "release_lease"])
def test_a_killed_closing_is_finished_by_the_next_hour(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, killed_at: str
) -> None:
    """Although its own entries are new."""
    drill = bench.opened()

    def killed(*_: Any, **__: Any) -> None:
        raise KafkaUnavailable("killed", "", "")

    with monkeypatch.context() as patch:
        patch.setattr(*((Journal, killed_at) if killed_at == "release_lease" else (given_up, killed_at)), killed)
        assert "killed" in close_given_up(bench, 9)[drill.id]
    assert close_given_up(bench, 9.1) == {drill.id: "closed"}
    assert len(drill.progress.facts(ProcedureClosed)) == 1
    lease = bench.journal.lease(LEASE)
    assert lease is not None and lease.outcome == "failed"


@pytest.mark.parametrize("killed_at", ["file_drill", "release_lease"])
def test_a_clean_up_killed_after_its_outcome_is_finished_by_the_next_hour(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, killed_at: str
) -> None:
    """Nothing is left to clean, and nobody waits for the drill: it is closed without delay."""
    drill = prepared_drill(bench, lives_seconds=-1)
    monkeypatch.setattr(janitor, "remove_drill", lambda *_: DrillCleaned(cleaned=True))

    def clean_up() -> dict[str, str]:
        return clean_left_drills(bench.journal, load_topology(bench.topology), bench.connections)

    def killed(*_: Any, **__: Any) -> None:
        raise KafkaUnavailable("killed", "", "")

    with monkeypatch.context() as patch:
        patch.setattr(*((Journal, killed_at) if killed_at == "release_lease" else (given_up, killed_at)), killed)
        assert "killed" in clean_up()[drill.id]
    assert clean_up() == {}
    assert close_given_up(bench, 0) == {drill.id: "closed"}
    lease = bench.journal.lease(LEASE)
    assert lease is not None and lease.outcome == "failed"
    assert len(drill.progress.facts(ProcedureClosed)) == 1


def test_a_drill_killed_before_its_first_entry_loses_its_lease(bench: Bench) -> None:
    """Nothing says with which params it was started: it has neither evidence nor verdict."""
    bench.journal.take_lease(LEASE, "failover_drill-r0")
    assert close_given_up(bench, 7.9) == {}
    assert close_given_up(bench, 8.1) == {"failover_drill-r0": "closed"}
    lease = bench.journal.lease(LEASE)
    assert lease is not None and lease.outcome == "failed"


def test_a_procedure_is_never_given_up(bench: Bench) -> None:
    """Only the lease of drills is looked at."""
    bench.journal.take_lease(PAIR, "planned_failover-r1")
    assert close_given_up(bench, 400) == {}
    lease = bench.journal.lease(PAIR)
    assert lease is not None and lease.released_at is None


def test_what_cannot_be_closed_is_named(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The drill keeps its lease, and the next hour tries again."""
    drill = bench.opened()

    def away(*_: Any) -> None:
        raise KafkaUnavailable("away", "", "")

    monkeypatch.setattr(bench.connections, "systems", away)
    assert "away" in close_given_up(bench, 9)[drill.id]
    lease = bench.journal.lease(LEASE)
    assert lease is not None and lease.released_at is None
