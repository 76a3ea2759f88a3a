"""Applications whose own logins are tried on the target before their clients are moved there."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from kafka_dr.config.fields import Alias, Connection, Model, UserName, matching_text

NamePrefix = Annotated[
    str,
    matching_text(
        r"[A-Za-z0-9][A-Za-z0-9._-]*",
        200,
        "expected what names of topics and groups begin with: letters, digits, dots, hyphens, underscores",
    ),
]


class ApplicationSettings(Model):
    """An application, with a login of its own on some clusters.

    Attributes:
        name: what messages call the application.
        connections: by alias of the cluster, the Airflow connection with the application's login there.
        prefix: what names of topics begin with on which the application may write and read. Switchback creates a topic
            with such a name for the time of a check. None: only the login is tried.
        group_prefix: likewise for the application's consumer groups; None: the same as `prefix`.
    """

    name: UserName
    connections: Annotated[dict[Alias, Connection], Field(min_length=1)]
    prefix: NamePrefix | None = None
    group_prefix: NamePrefix | None = None

    @property
    def topic(self) -> str | None:
        """Return the topic of a check, whose ending is in MirrorMaker 2's default of `topics.exclude`; else None."""
        return None if self.prefix is None else f"{self.prefix}switchback-access.replica"

    @property
    def group(self) -> str | None:
        """Return the consumer group of a check; None if only the login is tried."""
        return None if self.prefix is None else f"{self.group_prefix or self.prefix}switchback-access"
