"""The task in which a canary drill's producer and consumer run beside the passes."""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseOperator

from kafka_dr.actions.drill.clients import DrillClients
from kafka_dr.config.drill_topology import drill_settings
from kafka_dr.procedure.drill_run import installation_of
from kafka_dr.procedure.entries import DrillPrepared
from kafka_dr.procedure.find import procedure_of


class RunDrillClients(BaseOperator):
    """Write and read as the drill's own principal until the drill is cleaned up or its time to live is over.

    The task writes to no journal and needs no lease: it is the application of the drill, not one of its steps.
    """

    def execute(self, context: Any) -> dict[str, int]:
        """Return what the clients wrote and read."""
        procedure = procedure_of(context)
        try:
            prepared = procedure.progress.done(DrillPrepared)
            if prepared is None or not prepared.prepared:
                return {}
            private = installation_of(procedure)
            settings = drill_settings(procedure.topology, private.source, private.target)
            return DrillClients(private, procedure.systems.connections).run(settings.time_to_live_seconds)
        finally:
            procedure.close()
