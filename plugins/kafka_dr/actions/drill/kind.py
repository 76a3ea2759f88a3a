"""Which kind of drill a run is."""

from __future__ import annotations

from kafka_dr.procedure.run import Run


def kind_of(procedure: Run) -> str:
    """Return observe, canary or full: the param, else canary where the topology names workers for drills."""
    chosen = procedure.request.choices.get("kind")
    if chosen is not None:
        return str(chosen)
    settings = procedure.topology.drill
    return "canary" if settings is not None and settings.connect else "observe"
