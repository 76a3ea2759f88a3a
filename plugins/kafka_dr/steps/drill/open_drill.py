"""Open a drill: refuse it before anything is touched, or take the lease of drills."""

from __future__ import annotations

from typing import Any

from kafka_dr.actions.drill.kind import kind_of
from kafka_dr.actions.drill.refusals import (
    refuse_denied_clients,
    refuse_other_environment,
    refuse_shared_names,
    refuse_too_many_bytes,
    refuse_unfit_workers,
)
from kafka_dr.config.drill_topology import drill_settings
from kafka_dr.errors import Refusal
from kafka_dr.procedure.drill_run import installation_of
from kafka_dr.procedure.entries import LeaseTaken
from kafka_dr.procedure.run import Run
from kafka_dr.steps.shared.open_procedure import OpenProcedure


class OpenDrill(OpenProcedure):
    """Refuse a drill whose clusters a procedure holds, or that could reach beyond what it makes.

    The lease has a name of its own, so that a drill keeps no procedure from the clusters. No cool-down follows a drill,
    which moves no client by itself.
    """

    cools_down = False

    def run_once(self, procedure: Run, context: Any, woken: bool = False) -> dict[str, Any]:
        """Refuse, or take the lease of drills of the pair."""
        if procedure.progress.done(LeaseTaken) is None:
            procedure.refuse_if_held()
            _refuse_beside_other_drill(procedure)
            if procedure.topology.drill is not None:
                refuse_other_environment(procedure, procedure.topology.drill)
            if kind_of(procedure) == "canary":
                self._refuse_canary(procedure)
        return super().run_once(procedure, context, woken)

    def _refuse_canary(self, procedure: Run) -> None:
        settings = drill_settings(procedure.topology, procedure.request.source, procedure.request.target)
        refuse_too_many_bytes(settings)
        refuse_unfit_workers(procedure, settings)
        private = installation_of(procedure)
        refuse_denied_clients(procedure, private)
        refuse_shared_names(procedure, private)


def _refuse_beside_other_drill(procedure: Run) -> None:
    held = procedure.journal.lease(procedure.pair)
    if held is not None and held.released_at is None and held.holder != procedure.id:
        raise Refusal(
            "Another drill of these clusters has not ended",
            f"{held.holder} since {held.taken_at.isoformat(timespec='seconds')}",
            "Answer its sign_off_drill, or clear its close_procedure. Do not run abort_procedure: it ends procedures"
            " that move clients, never a drill.",
        )
