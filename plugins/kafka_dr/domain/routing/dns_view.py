"""What the authoritative servers of a shared DNS name answer, and whether the name could be redirected now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafka_dr.domain.routing.dns_answers import DnsAnswers


@dataclass(frozen=True)
class DnsServerView:
    """What one authoritative server answers.

    Attributes:
        server: name and address.
        answers: None if the server gave no usable answer; `problem` then says why.
        ttl: longest time that resolvers may keep the answer, in seconds; None without a record.
        serial: serial number of the zone; None if it was not asked for.
    """

    server: str
    answers: DnsAnswers | None = None
    ttl: int | None = None
    problem: str = ""
    serial: int | None = None

    def __str__(self) -> str:
        serial = "" if self.serial is None else f" (serial {self.serial})"
        return f"{self.server}: {self.problem or self.answers}{serial}"


@dataclass(frozen=True)
class DnsView:
    """A shared DNS name as it is now.

    Attributes:
        name: the shared name.
        most_ttl: the longest TTL that the topology allows, in seconds.
        refused: why the primary server took no update of the name, or why its record cannot be read; empty: an update
            that changes nothing was taken.
        leads_to: alias of the cluster to which the primary server leads; None if to none.
        servers: the authoritative servers.
        rto_seconds: recovery time objective of the flow; None without one.
        nameless: alias -> brokers whose TLS certificate lacks the shared name, each with the names that it has.
    """

    name: str
    most_ttl: int
    refused: str = ""
    leads_to: str | None = None
    servers: tuple[DnsServerView, ...] = ()
    rto_seconds: float | None = None
    nameless: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def lagging(self, expected: DnsAnswers) -> list[DnsServerView]:
        """Return the servers that answer, but not as `expected`."""
        return servers_lagging(self.servers, expected)

    @property
    def kept(self) -> int:
        """How long resolvers may keep the present answer, in seconds; the topology's limit if no server states it."""
        return max((server.ttl for server in self.servers if server.ttl is not None), default=self.most_ttl)

    @property
    def silent(self) -> list[DnsServerView]:
        """The servers that gave no usable answer."""
        return [server for server in self.servers if server.answers is None]


def servers_lagging(servers: tuple[DnsServerView, ...], expected: DnsAnswers) -> list[DnsServerView]:
    """Return those of the servers that answer, but not as `expected`."""
    return [server for server in servers if server.answers not in (None, expected)]
