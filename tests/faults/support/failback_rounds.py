"""Failbacks of one workload's returned source, each of which must end in the same state."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

from kafka_dr.hooks.journal.journal import Journal

from lab.checker import CheckResult, RoundTripCheck, RoundTripObserved, Trip
from lab.checker.round_trip.observed import FAILBACK
from lab.rehearsal.planned import without_garbage_collection
from lab.rehearsal.round_trip import Leaving
from lab.rehearsal.unplanned import Accident
from tests.faults.support import always_on
from tests.faults.support.rounds import PARAMS, Rounds
from tests.faults.support.stepping import Run
from tests.faults.support.trips import PROPOSED, SteppedTrips
from tests.faults.support.world import World, bring_back_journal, keep_journal

AWAY, HOME = "standby", "primary"
#: Folders of an export.
KINDS = ("stranded", "uncommitted", "older")


class FailbackRounds(Rounds):
    """The lab after stranded records of every kind, and the checked end of one failback; no client writes."""

    dag_id = FAILBACK
    rate = 1_000
    params = PARAMS | PROPOSED[FAILBACK] | {"source": AWAY, "target": HOME}
    saved_after = ("find_stranded_records", "start_flow_back", "approve_failover", "review_translation")
    # What was found and made on the returned cluster stays for the next run: its fence, and the flow back.
    left_behind = (*Rounds.left_behind, "acls", "connectors")
    # Each process has an export of its own; what is in it is compared.
    run_specific = Rounds.run_specific | {"stranded"}

    def rehearsed(self, state: Path, folder: Path, seed: int) -> SteppedTrips:
        """Lose the source, move clients, and start the source again; store the journal for every round."""
        made = SteppedTrips(state, folder, seed, self.rate, self.driver, clients=False, scale=0.05, groups=6)
        made.start_always_on()
        made.seed_topics()
        verdict = made.leave(Leaving(Accident(after=1.0), more=10, stranded=20))
        assert verdict.passed, "\n".join(verdict.lines(limit=5))
        for dag_id in (always_on.RECORDER, always_on.WATCHER):
            always_on.stop(self.lab, dag_id)
        # The watcher would stop again what is put back between rounds: its sign of life is enough.
        self.driver.before = lambda run, step: Journal(f"sqlite:///{self.lab.journal}").show_life(always_on.WATCHER)
        self.groups = sorted(made._positions(AWAY))
        known = {"before": made._positions(HOME), "returned": made._logs(HOME)}
        self.trip = Trip(made.number, FAILBACK, AWAY, HOME, {}, **known, approver="approver", flows_on=True)
        keep_journal(self.lab, self.folder / "before")
        return made

    def seen(self) -> World:
        """Return the view of both clusters, source and target exchanged."""
        return World(self.lab, self.groups, AWAY, HOME)

    def checked(self, evidence: dict[str, Any]) -> CheckResult:
        """Return the checker's result on the undisturbed run."""
        self.rehearsal.ledger.turn(HOME, self.rehearsal.ledger.now.begun_at + 1)
        self.trip.evidence, self.trip.folder = evidence, self.lab.evidence / evidence["procedure_id"]
        with without_garbage_collection():
            return RoundTripCheck(RoundTripObserved(self.rehearsal.ledger, self.trip, self.lab.status())).check()

    def fresh(self) -> Run:
        """Return a new run in the stored world and journal, without the entries of earlier runs."""
        bring_back_journal(self.lab, self.folder / "before")
        return super().fresh()

    def comparable(self, evidence: dict[str, Any]) -> dict[str, Any]:
        """Return the comparable evidence of a round, and the exported files."""
        folder = self.lab.evidence / evidence["procedure_id"] / str(evidence["stranded"])
        kept = {
            path.relative_to(folder).as_posix(): sha256(path.read_bytes()).hexdigest()
            for kind in KINDS
            for path in sorted((folder / kind).glob("*.parquet"))
        }
        assert any(name.startswith("stranded/") for name in kept), "nothing was exported"
        return super().comparable(evidence) | {"exported": kept}

    def returned(self, run: Run) -> list[str]:
        """Return differences after a return to the source, also of the rights on the clients' cluster."""
        now = self.world.look()["acls"][AWAY]
        return super().returned(run) + ([] if now == self.before["acls"][AWAY] else [f"rights on {AWAY}: {now}"])
