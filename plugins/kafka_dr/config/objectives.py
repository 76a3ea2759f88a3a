"""What a flow is meant to keep: recovery objectives, how often they are tried, and limits of its readiness."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from kafka_dr.config.fields import Model, Seconds, Setting, matching_text

_ShortText = Annotated[
    Setting,
    matching_text(r"[^\s\x00-\x1f\x7f](?:[^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f])?", 200, "a short text, not empty"),
]
_Days = Annotated[int, Field(strict=True, ge=1, le=3650)]


class Objectives(Model):
    """Objectives of one flow. A setting that is left out states no objective, or has the default below.

    Attributes:
        rto_seconds: recovery time objective: longest time in which clients can use neither cluster.
        rpo_seconds: recovery point objective: how far back from the loss of the source records may be lost.
        rpo_records: recovery point objective: how many records may be lost.
        tier: how important the flow is, in the words of the site.
        basis: where the numbers come from, such as the id of a business impact analysis.
        drill_days: a drill is due this many days after the last one.
        notice_hours: how long before a full drill it is announced.
        retest_days: a failed drill is repeated within this many days.
    """

    rto_seconds: Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)] | None = None
    rpo_seconds: Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)] | None = None
    rpo_records: Annotated[int, Field(strict=True, ge=0)] | None = None
    tier: _ShortText | None = None
    basis: _ShortText | None = None
    drill_days: _Days = 92
    notice_hours: Annotated[int, Field(strict=True, ge=0, le=8760)] = 24
    retest_days: _Days = 30

    @property
    def stated(self) -> dict[str, Any] | None:
        """Return all settings as plain data; None if the topology states none of them."""
        return None if self == Objectives() else self.model_dump(mode="json")


class WarmMachine(Model):
    """A machine that can run procedures without the site's Airflow, and proves it.

    Attributes:
        machine: its host name, as `hostname` prints it there.
        days: how old the newest procedure of this flow may be that the command `run` completed on it.
    """

    machine: _ShortText
    days: _Days = 31


class ReadinessLimits(Model):
    """Limits beyond which the DAG readiness_check says that a flow is not ready.

    Attributes:
        record_age_seconds: how long a record may wait for its copy on the target.
        replication_latency_seconds: how old the newest mirrored heartbeat may be.
        checkpoint_latency_seconds: how long no checkpoint and no offset sync may come although records flow.
        lag_records, lag_bytes: how much the target may lack; None: any amount.
        copied_share: which share of the records written since the last check the target must have copies of.
        certificate_days: how long each certificate must still be valid; a shorter time is a warning.
        warm_machine: the machine that must prove itself; None: none is awaited.
    """

    record_age_seconds: Seconds = 60.0
    replication_latency_seconds: Seconds = 30.0
    checkpoint_latency_seconds: Seconds = 120.0
    lag_records: Annotated[int, Field(strict=True, ge=0)] | None = None
    lag_bytes: Annotated[int, Field(strict=True, ge=0)] | None = None
    copied_share: Annotated[float, Field(strict=True, ge=0, le=1)] = 0.5
    certificate_days: Annotated[float, Field(strict=True, ge=0, le=3650)] = 14.0
    warm_machine: WarmMachine | None = None
