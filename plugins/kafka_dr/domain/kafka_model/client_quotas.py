"""Client quotas of a cluster: limits by which brokers slow down clients, by user, client id or address."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

#: The types of a quota's parts, in the order in which Kafka's tools name them.
_TYPES = ("user", "client-id", "ip")


class QuotaEntity(NamedTuple):
    """For whom a quota is.

    Attributes:
        parts: pairs of a type (user, client-id, ip) and a name; a name of None stands for all that have no quota of
            their own.
    """

    parts: tuple[tuple[str, str | None], ...]

    @classmethod
    def of(cls, names: Mapping[str, str | None]) -> QuotaEntity:
        """Return the entity of these names by type, in Kafka's order."""
        return cls(tuple(sorted(names.items(), key=lambda part: _TYPES.index(part[0]) if part[0] in _TYPES else 9)))

    @property
    def user(self) -> str | None:
        """Name of the user; None for an entity without a named user."""
        return dict(self.parts).get("user")

    def __str__(self) -> str:
        return ", ".join(f"{kind} {name}" if name is not None else f"every {kind}" for kind, name in self.parts)


#: Limits by name, such as producer_byte_rate in bytes a second, for each entity.
Quotas = Mapping[QuotaEntity, Mapping[str, float]]
#: Numbers of iterations by SCRAM mechanism, such as SCRAM-SHA-512, for each user.
ScramUsers = Mapping[str, Mapping[str, int]]
