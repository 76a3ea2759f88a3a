"""Whether MirrorMaker 2 may overwrite positions of groups on the target."""

from __future__ import annotations

from kafka_dr.errors import BadInput, SystemUnavailable
from kafka_dr.procedure.run import Run

_GROUP_SYNC = "sync.group.offsets.enabled"


def group_sync_runs(procedure: Run) -> bool | None:
    """Whether MirrorMaker 2's group offset sync to the target runs and could overwrite positions; None if unknown."""
    flow = procedure.flow
    try:
        worker, name = procedure.mirror_maker(flow), flow.connectors.checkpoint.name
        return not worker.status(name).stopped and worker.config(name).get(_GROUP_SYNC, "false") == "true"
    except (SystemUnavailable, BadInput):
        return None
