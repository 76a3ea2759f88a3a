"""The flow that is changed, with the settings that its connectors have, or with which its processes start next."""

from __future__ import annotations

from kafka_dr.hooks.connect.flow_connectors import FlowConnectors
from kafka_dr.procedure.run import Run


def changed_flow(procedure: Run) -> FlowConnectors:
    """Return the connectors of the run's flow.

    Without a Connect worker the settings are those that the stop hook reads where people keep them; or those of the
    topology, if the stop hook reports none.
    """
    connectors = procedure.mirror_maker(procedure.flow)
    return connectors.with_kept_settings() or connectors
