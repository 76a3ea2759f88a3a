"""Compare the offset option that the topology records for a flow with what runs."""

from __future__ import annotations

from typing import Any

from kafka_dr.config.topology import Flow, Topology
from kafka_dr.domain.mirror_maker.offset_option import FlowSetUp, view_option
from kafka_dr.domain.readiness.observation import FlowView
from kafka_dr.procedure.run import Run

_EXAMPLE = "orders"


def set_up_of(topology: Topology, flow: Flow) -> FlowSetUp:
    """Return what of a flow's set-up decides which offset option it has, as the topology states it."""
    naming = topology.naming
    example = topology.names.remote(flow.source, _EXAMPLE)
    return FlowSetUp(flow.source, flow.target, naming.policy, naming.policy_class, example, flow.workers)


def option_of(procedure: Run, seen: FlowView | None) -> dict[str, Any]:
    """Return what the plan or the readiness document says of the flow's offset option, as of `view_option`.

    Returns {} in a drill, whose connectors are its own.

    Args:
        seen: the flow as observed; None if it cannot be observed: then the topology's settings of the flow count.
    """
    if procedure.systems.scope is not None:
        return {}
    flow = procedure.flow
    recorded = None if flow.offset_option is None else flow.offset_option.recorded
    if seen is None:
        config = flow.mirror_maker or None
    else:
        config = None if seen.checkpoint_connector is None else dict(seen.checkpoint_connector.config)
    return view_option(recorded, set_up_of(procedure.topology, flow), config)
