"""Unplanned failovers of one workload, with and without a drill that has come to a point and is given up there."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from kafka_dr.domain.drill.names import DRILL
from kafka_dr.hooks.journal.journal import Journal

from lab.rehearsal.unplanned import Accident, LostSourceRehearsal
from tests.faults.drills.leftovers import clean_left_drills, list_leftovers
from tests.faults.drills.whole_drill import WholeDrills, make_drills_short
from tests.faults.support import always_on
from tests.faults.support.lost_rounds import LostRounds
from tests.faults.support.lost_scene import DEADLINES, quicken
from tests.faults.support.rounds import Rounds
from tests.faults.support.stepping import Run
from tests.faults.support.world import World, keep_journal

#: Where the drill stands -> the last step of its first pass, and what it would do next: DAG id, step.
POINTS = {
    "its fence": ("fence_producers", ("planned_failover", "drain_consumers")),
    "its stop": ("stop_mirror_maker", ("planned_failover", "translate_offsets")),
    "a half-done clean-up": ("stop_mirror_maker", ("failover_drill", "clean_drill")),
}
HALF_DONE = "a half-done clean-up"
PRECEDENCE = "A procedure takes precedence over this drill"
#: A drill's time to live, in seconds: longer than a failover beside it, on a busy machine, too.
_LIVES_SECONDS = 600.0


class GivenUpError(Exception):
    """A drill has come to its point, and nothing of it goes on."""


class TreatedAsLost(LostSourceRehearsal):
    """A rehearsal whose source lives on: people treat it as lost, for example because its site must be left."""

    def suffer(self, accident: Accident) -> None:
        """Wait until everything is mirrored and sampled."""
        self.await_rest()
        self.await_samples()
        self.died_at = int(time.time() * 1000)


class Incidents(LostRounds):
    """Each round begins in the same world, in which nobody writes, and must end as the first, checked one."""

    params = LostRounds.params | {"override_source_lost": "the site has to be left"}
    saved_after = ()
    # On a busy machine a source that is slow to answer has not stated its id when a run begins.
    run_specific = LostRounds.run_specific | {"clusters"}

    def rehearsed(self, state: Path, folder: Path, seed: int) -> LostSourceRehearsal:
        """Create the workload, have it mirrored and sampled; afterwards no client writes and no sample is taken."""
        quicken(self.lab)
        make_drills_short(self.lab, DEADLINES | {"slow_seconds": 3.0}, time_to_live_seconds=_LIVES_SECONDS, records=300)
        self.drills = WholeDrills(self.lab, self.driver)
        # On a busy machine the source may look lost without an override, and then a watcher has to live.
        self.driver.before = lambda run, step: Journal(f"sqlite:///{self.lab.journal}").show_life(always_on.WATCHER)
        made = TreatedAsLost(state, folder, seed, 0, scale=0.05, groups=6)
        always_on.start(self.lab, always_on.RECORDER)
        made.seed_topics()
        made.lose_source(Accident())
        made.stop()
        always_on.stop(self.lab, always_on.RECORDER)
        keep_journal(self.lab, self.folder / "before")
        return made

    def seen(self) -> World:
        """Return the view of both clusters."""
        return Rounds.seen(self)

    def at_rest(self) -> dict[str, Any]:
        """Return the world."""
        return Rounds.at_rest(self)

    def fresh(self) -> Run:
        """Return a new run in the first world, once all tasks run: those that begin are stopped later."""
        run = super().fresh()
        self.rehearsal.await_state("RUNNING")
        return run

    def round(self, point: str | None) -> tuple[float, list[str]]:
        """Do a failover beside a drill at this point; return the seconds until the target was open, and what is wrong.

        Args:
            point: a key of POINTS; None for no drill.
        """
        run = self.fresh()
        drill = self.begin_drill(point) if point else None
        began = time.monotonic()
        assert self.driver.forward(run, until="open_target"), run.texts
        seconds = time.monotonic() - began
        wrong = self._goes_on(*drill) if drill else []
        evidence = self.driver.whole(run, after="open_target")
        verdict = self.checked(evidence)
        wrong += [] if verdict.passed else verdict.lines(limit=5)
        wrong += self._cleaned(evidence) if drill else []
        return seconds, wrong + self.differences(run, evidence)

    def begin_drill(self, point: str) -> tuple[Run, str]:
        """Run a drill to a point and give it up there; return what would go on, and with which step."""
        last, (dag_id, step) = POINTS[point]
        drill, _ = self.drills.new()
        passes: list[Run] = []

        def given_up(triggered: Run) -> str:
            passes.append(triggered)
            assert self.driver.forward(triggered, until=last), triggered.texts
            raise GivenUpError

        self.driver.run_triggered = given_up
        assert self.driver.forward(drill, until="prepare_drill"), drill.texts
        self.drills.start_clients(drill)
        with suppress(GivenUpError):
            self.driver.step(drill, "run_planned_failover")
        if point == HALF_DONE:
            # One cluster has lost the drill's topics, the other still has them.
            killing = {"kill_before": "brokers.cluster.KafkaCluster.delete_topics#2"}
            (found,) = self.driver.processes(drill, "clean_drill", **killing)
            assert found["state"] == "killed", found
        return (drill if dag_id == drill.dag_id else passes[0]), step

    def _goes_on(self, run: Run, step: str) -> list[str]:
        """Try the drill's next step; return what is wrong unless it refuses because of the failover."""
        ended = self.driver.step(run, step)
        text = run.texts[step]
        return [] if ended == "refused" and PRECEDENCE in text else [f"{step} of the drill ended as {ended}: {text}"]

    def _cleaned(self, evidence: dict[str, Any]) -> list[str]:
        """Have the drill cleaned up; return what is left of it, and what it took of the failover's fence."""
        before = self._rights()
        answers = clean_left_drills(self.driver)
        left = list_leftovers(self.lab)
        self.drills.end_clients()
        wrong = [f"clean-up: {answers}"] if list(answers.values()) != ["cleaned"] else []
        wrong += [f"left: {left}"] if left else []
        wrong += [f"fenced_at is {evidence['fenced_at']}"] if not evidence["fenced_at"] else []
        return wrong + ([f"rights: {before} before, {now} now"] if (now := self._rights()) != before else [])

    def _rights(self) -> dict[str, list[str]]:
        """Return the ACL entries of both clusters, without those on a drill's names."""
        return {
            alias: [text for text in texts if DRILL not in text] for alias, texts in self.world.look()["acls"].items()
        }
