"""Remove a drill's things under its journal, after its passes or long after its DAG run was killed."""

from __future__ import annotations

from kafka_dr.actions.drill.cleaning import DrillCleaner, clean_up
from kafka_dr.actions.drill.untouched import read_production
from kafka_dr.config.drill_topology import drill_settings
from kafka_dr.domain.drill.records import production_differences
from kafka_dr.errors import SwitchbackError
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.drill_run import installation_of
from kafka_dr.procedure.entries import DrillCleaned, DrillToPrepare
from kafka_dr.procedure.run import Run


def remove_drill(procedure: Run, step: str) -> DrillCleaned:
    """Remove everything that the drill has made, if anything; return what is left and what of production differs."""
    if procedure.progress.done(DrillToPrepare) is None:
        return DrillCleaned(cleaned=True)
    private = installation_of(procedure)
    settings = drill_settings(procedure.topology, private.source, private.target)
    systems = private.systems_of(procedure)
    cleaner = DrillCleaner(systems, private, settings)
    left = clean_up(cleaner, lambda found: record_fact(procedure.authority, step, found))
    return DrillCleaned(cleaned=not left, left=left, untouched=_compare_production(procedure))


def _compare_production(procedure: Run) -> dict[str, object]:
    """Return what was compared of production, what differs, and what could not be compared."""
    prepared = procedure.progress.require(DrillToPrepare)
    try:
        before = procedure.artifacts.load_json(prepared.production)
        after = read_production(procedure)
    except (SwitchbackError, OSError) as error:
        return {"compared": [], "changed": [], "unknown": [str(error)]}
    compared = [f"{kind}: {len(things)}" for kind, things in sorted(before.items())]
    return {"compared": compared, "changed": production_differences(before, after), "unknown": []}
