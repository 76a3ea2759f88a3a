"""Make what a canary drill needs: topics, records, groups and connectors of its own."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from kafka_dr.actions.drill.kind import kind_of
from kafka_dr.actions.drill.preparation import prepare_drill
from kafka_dr.actions.drill.untouched import read_production
from kafka_dr.config.drill_topology import drill_settings
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.drill_run import installation_of
from kafka_dr.procedure.entries import DrillPrepared, DrillToPrepare
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep


class PrepareDrill(ProcedureStep):
    """Note production's state, then make the drill's own things; a drill of another kind makes nothing."""

    def act(self, procedure: Run, context: Any) -> DrillPrepared:
        """Write the intent that names all of it, make it, and wait until the records are on both clusters."""
        if kind_of(procedure) != "canary":
            return DrillPrepared(prepared=False)
        private, began = installation_of(procedure), time.monotonic()
        settings = drill_settings(procedure.topology, private.source, private.target)
        before = procedure.progress.done(DrillToPrepare)
        if before is None:
            ends_at = procedure.journal.now() + timedelta(seconds=settings.time_to_live_seconds)
            before = DrillToPrepare(
                drill_short=private.names.short,
                folder=str(private.folder),
                ends_at=ends_at.isoformat(),
                production=procedure.artifacts.save_json("production", read_production(procedure)),
            )
            record_fact(procedure.authority, self.task_id, before)
        ids = prepare_drill(procedure, private, settings)
        return DrillPrepared(
            prepared=True, topic_ids=ids, written=settings.records, seconds=round(time.monotonic() - began, 1)
        )
