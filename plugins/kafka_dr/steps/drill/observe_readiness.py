"""Check whether clients could move now, without writing anything."""

from __future__ import annotations

from kafka_dr.steps.planned.check_readiness import CheckReadiness


class ObserveReadiness(CheckReadiness):
    """All checks of a planned failover but those that write: MirrorMaker 2's canary, and the probe's rights."""

    writes = False
