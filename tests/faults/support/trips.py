"""Round trips on a lab without Airflow: procedures go step by step, and anything may happen between two of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kafka_dr.hooks.journal.journal import Journal

from lab.checker.round_trip.observed import FAILBACK
from lab.environment.state import Lab
from lab.rehearsal.round_trip import RoundTrips
from tests.faults.support import always_on
from tests.faults.support.lost_scene import Act, quicken
from tests.faults.support.stepping import Run, Stepping
from tests.support.rehearsals import kept_if_it_fails

#: As Airflow's form has it where nobody fills it in; without Airflow nobody does.
PROPOSED = {FAILBACK: {"start_reverse_replication": True}}
#: For a flow back that has little to copy; a dead one is not waited for an hour.
CATCH_UP_SECONDS = 60.0


class SteppedTrips(RoundTrips):
    """A workload whose clients move to and fro, driven without Airflow.

    Attributes:
        at: what happens before a step of the next procedure, by the step's name; each once.
        suffers: what the first process of a step of the next procedure suffers, as of `Stepping.whole`.
        last: the procedure that ran last.

    Args:
        driver: of the steps; the rehearsal makes one of its own, and ends it, where there is none.
        watched: whether the watcher runs; without it only its sign of life is shown.
        clients: whether the demo application runs, which goes where it is sent.
    """

    def __init__(
        self,
        state: Path,
        folder: Path,
        seed: int,
        rate: int = 0,
        driver: Stepping | None = None,
        watched: bool = True,
        clients: bool = True,
        **workload: Any,
    ) -> None:
        quicken(Lab(state), catch_up_seconds=CATCH_UP_SECONDS)
        super().__init__(state, folder, seed, rate, **workload)
        self.at: dict[str, Act] = {}
        self.suffers: dict[str, dict[str, Any]] = {}
        self.last: Run | None = None
        self._watched, self._clients = watched, clients
        self._own = None if driver else Stepping(self.lab, folder / "steps", self._before)
        self.driver = driver or self._own

    def start_always_on(self) -> None:
        """Start the watcher and the recorder, if the arguments ask for them."""
        if self._recorded:
            always_on.start(self.lab, always_on.RECORDER)
        if self._watched:
            always_on.start(self.lab, always_on.WATCHER)

    def start_clients(self) -> None:
        """Start the demo application, if the arguments ask for it."""
        if self._clients:
            super().start_clients()

    def procedure(self, dag_id: str, **params: Any) -> Run:
        """Return a new run of a procedure, from the clients' present cluster."""
        asked = {
            "source": self.source,
            "target": self.target,
            "reason": "there and back",
            **PROPOSED.get(dag_id, {}),
            **params,
        }
        return Run(asked, dag_id=dag_id)

    def run(self, approver: str | None, reason: str, seconds: int = 900, **params: Any) -> int:
        """Run the procedure step by step; return 0 if it completed."""
        self.last, suffers, self.suffers = self.procedure(self.dag_id, **params), self.suffers, {}
        evidence = self.driver.whole(self.last, **suffers)
        return 0 if evidence["outcome"] == "completed" else 1

    def close(self) -> None:
        """End the helpers that the lab does not end."""
        try:
            self.stop()
        finally:
            if self._own:
                self._own.close()

    def _before(self, run: Run, step: str) -> None:
        if not self._watched:
            Journal(f"sqlite:///{self.lab.journal}").show_life(always_on.WATCHER)
        if step in self.at:
            self.at.pop(step)()


@contextmanager
def stepped_trips(
    state: Path, folder: Path, seed: int = 4244, rate: int = 1_000, **workload: Any
) -> Iterator[SteppedTrips]:
    """Yield round trips for the block, with topics, groups, the watcher, and the recorder if `recorded`."""
    made = SteppedTrips(state, folder, seed, rate, **{"scale": 0.05, "groups": 8, **workload})
    try:
        with kept_if_it_fails(state, folder):
            made.start_always_on()
            made.seed_topics()
            yield made
    finally:
        made.close()
