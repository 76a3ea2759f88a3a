"""Limits of a flow's readiness, `readiness` of a flow in the topology."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from kafka_dr.config.fields import Model, Seconds


class ReadinessLimits(Model):
    """Limits beyond which the DAG readiness_check says that a flow is not ready.

    Attributes:
        record_age_seconds: how long a record may wait for its copy on the target.
        replication_latency_seconds: how old the newest mirrored heartbeat may be.
        checkpoint_latency_seconds: how long no checkpoint and no offset sync may come although records flow.
        lag_records, lag_bytes: how much the target may lack; None: any amount.
        copied_share: which share of the records written since the last check the target must have copies of.
        certificate_days: how long each certificate must still be valid; a shorter time is a warning.
    """

    record_age_seconds: Seconds = 60.0
    replication_latency_seconds: Seconds = 30.0
    checkpoint_latency_seconds: Seconds = 120.0
    lag_records: Annotated[int, Field(strict=True, ge=0)] | None = None
    lag_bytes: Annotated[int, Field(strict=True, ge=0)] | None = None
    copied_share: Annotated[float, Field(strict=True, ge=0, le=1)] = 0.5
    certificate_days: Annotated[float, Field(strict=True, ge=0, le=3650)] = 14.0
