"""Unplanned failovers of one workload with a killed source, each of which must end in the same state."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from kafka_dr.hooks.journal.journal import Journal

from lab.rehearsal.planned import TARGET
from lab.rehearsal.unplanned import Accident, LostSourceRehearsal
from tests.faults.support import always_on
from tests.faults.support.lost_scene import PARAMS, UNPLANNED, figures_of, quicken
from tests.faults.support.rounds import Rounds
from tests.faults.support.scene import until
from tests.faults.support.stepping import Run
from tests.faults.support.world import World, bring_back_journal, keep_journal

#: For a connector that was told to stop while its source is dead.
STOP_SECONDS = 60.0


class LostRounds(Rounds):
    """The lab, its target, the recorded samples, and the checked end; ``rate`` is the load's records/s."""

    dag_id = UNPLANNED
    rate = 2_000
    params = PARAMS | {"reason": "again and again", "approval_valid_seconds": 86_400.0}
    saved_after = ("assess_data_loss", "approve_data_loss", "stop_mirror_maker", "review_translation")
    # Without its source's worker nobody can say that the other direction stands: the flow is left stopped, and that is
    # said.
    left_behind = (*Rounds.left_behind, "connectors")

    def rehearsed(self, state: Path, folder: Path, seed: int) -> LostSourceRehearsal:
        """Sample the source, then lose it under load; afterwards no client writes and no sample is taken."""
        quicken(self.lab)
        made = LostSourceRehearsal(state, folder, seed, self.rate, scale=0.05, groups=6)
        always_on.start(self.lab, always_on.RECORDER)
        # The watcher would stop again what is put back between rounds; its source stays dead, so its sign of life is
        # enough.
        self.driver.before = lambda run, step: Journal(f"sqlite:///{self.lab.journal}").show_life(always_on.WATCHER)
        made.seed_topics()
        self.lose(made)
        made.stop()
        always_on.stop(self.lab, always_on.RECORDER)
        keep_journal(self.lab, self.folder / "before")
        return made

    def lose(self, rehearsal: LostSourceRehearsal) -> None:
        """Start the load and cause the accident."""
        rehearsal.lose_source(Accident(after=2.0))

    def seen(self) -> World:
        """Return the view of the target only."""
        return World(self.lab, sorted(self.rehearsal.truth.positions), alive=(TARGET,))

    def fresh(self) -> Run:
        """Return a new run in the first world and journal: another run's journal would vouch for other logs."""
        bring_back_journal(self.lab, self.folder / "before")
        return super().fresh()

    def at_rest(self) -> dict[str, Any]:
        """Wait until the flow's connectors are STOPPED, if the run stops them; return the world."""
        if "stop_mirror_maker" in self.reference.ended:
            until(
                lambda: set(self.world.look()["connectors"].values()) == {"STOPPED"}, "the flow to stand", STOP_SECONDS
            )
        return self.world.look()

    def differences(self, run: Run, evidence: dict[str, Any]) -> list[str]:
        """Return the differences of a round, once the connectors' states are stable."""
        ends_at = time.monotonic() + STOP_SECONDS
        while self.world.look()["connectors"] != self.end["connectors"] and time.monotonic() < ends_at:
            time.sleep(0.5)
        return super().differences(run, evidence)

    def returned(self, run: Run) -> list[str]:
        """Return differences after a return to the source, also if the run did not record the flow's state."""
        figures = figures_of(self.driver.evidence(run), "return_to_source")
        told = figures.get("connectors_resumed") or figures.get("replication_left_stopped")
        return super().returned(run) + ([] if told else [f"nothing is said of the flow: {figures}"])
