"""Where Switchback stores files: the recorder's archive, the store; and what exports of records hold."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from kafka_dr.config.fields import Connection, Model, PublicKey, matching_text

Uri = Annotated[
    str,
    matching_text(
        r"[a-z][a-z0-9+.-]*://[^\s\x00-\x1f\x7f@?]+", 1000, "a URI of a folder or bucket, without credentials"
    ),
]


class Recorder(Model):
    """Settings of the flight recorder's archive.

    Attributes:
        archive: URI of a folder or bucket on the target's site, such as `file:///var/lib/switchback/archive` or
            `s3://bucket/prefix`.
        connection: Airflow connection whose extra holds the file system's options, such as credentials.
        interval_seconds: longest time from the start of one sample to the start of the next.
        retention_days: samples older than this are deleted.
        public_keys: keys by which the recorder's samples are verified; several while a key is replaced by another. With
            a key only signed samples count; without one samples are unsigned.
    """

    archive: Uri
    connection: Connection | None = None
    interval_seconds: Annotated[float, Field(strict=True, ge=1, le=3600, allow_inf_nan=False)] = 10.0
    retention_days: Annotated[float, Field(strict=True, gt=0, le=3650, allow_inf_nan=False)] = 14.0
    public_keys: tuple[PublicKey, ...] = ()


class StoreSettings(Model):
    """The store that holds the evidence folder's files for all machines; each machine's folder is then a cache.

    Attributes:
        uri: URI of a folder or bucket outside the site that clients may leave, such as `s3://bucket/prefix`.
        connection: Airflow connection whose extra holds the file system's options, such as credentials.
    """

    uri: Uri
    connection: Connection | None = None


class RecordExports(Model):
    """What exports hold of each record: of stranded records, of lost ones, and of those that only a target holds.

    Attributes:
        values: `keep`; or `omit`: no values, and no values of headers. Sizes stay.
        keys: `keep`; or `hash`: in place of a key its HMAC-SHA-256, by which equal keys are still equal.
        connection: Airflow connection whose password is the secret of the HMAC; with `keys: hash` alone.
    """

    values: Literal["keep", "omit"] = "keep"
    keys: Literal["keep", "hash"] = "keep"
    connection: Connection | None = None

    @model_validator(mode="after")
    def _has_a_secret_to_hash_with(self) -> RecordExports:
        if (self.keys == "hash") != (self.connection is not None):
            raise ValueError(
                "`keys: hash` needs `connection`, an Airflow connection whose password is the secret of the hash;"
                " `keys: keep` has no `connection`"
            )
        return self

    @property
    def whole(self) -> bool:
        """Whether records can be written again from an export."""
        return (self.values, self.keys) == ("keep", "keep")

    @property
    def form(self) -> dict[str, str]:
        """What evidence says of an export."""
        return {"values": self.values, "keys": self.keys}
