"""How clients find the cluster to which they connect, `routing` of the topology."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from kafka_dr.config.fields import Alias, Connection, FilePath, Model
from kafka_dr.domain.routing.dns_answers import RECORD_LABEL, DnsAnswers, full_name, name_problem

_LONGEST_TTL = 3600


class FileRoutingSettings(Model):
    """Settings for clients that look up their cluster in a file.

    Attributes:
        kind: `file`.
        path: the file, which redirect_clients replaces; a relative path begins at the folder of the topology file.
    """

    kind: Literal["file"]
    path: FilePath


class HttpRoutingSettings(Model):
    """Settings for clients that an HTTP hook redirects.

    Attributes:
        kind: `http`.
        connection: Airflow connection of the hook.
    """

    kind: Literal["http"]
    connection: Connection


def _checked_name(name: str) -> str:
    if problem := name_problem(name):
        raise ValueError(problem)
    return full_name(name)


def _checked_address(address: str) -> str:
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        raise ValueError("expected an IPv4 or IPv6 address, or one host name instead of a list") from None


DnsName = Annotated[str, AfterValidator(_checked_name)]
Addresses = Annotated[
    tuple[Annotated[str, AfterValidator(_checked_address)], ...],
    BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value),
    Field(min_length=1, max_length=20),
]


class DnsRoutingSettings(Model):
    """Settings for clients that find their cluster by one shared DNS name.

    Attributes:
        kind: `dns`.
        connection: Airflow connection of the zone's primary server: host, port, and the TSIG key by name and secret.
        zone: the zone that is updated, such as example.com.
        name: the shared name, in which clients' bootstrap.servers end, such as kafka.example.com. A TXT record below
            it, at `_switchback`, holds the routing record.
        answers: cluster -> what the name answers when it leads there: one host name (a CNAME record), or addresses.
        ttl_seconds: how long resolvers may keep an answer; written with each redirect, and checked by readiness.
    """

    kind: Literal["dns"]
    connection: Connection
    zone: DnsName
    name: DnsName
    answers: dict[Alias, DnsName | Addresses] = Field(min_length=2)
    ttl_seconds: Annotated[int, Field(strict=True, ge=1, le=_LONGEST_TTL)] = 30

    @property
    def expected(self) -> dict[str, DnsAnswers]:
        """Return by alias the records that the name has when it leads to that cluster."""
        return {alias: DnsAnswers.stated(answer) for alias, answer in self.answers.items()}

    @property
    def record_name(self) -> str:
        """Return the name whose TXT record holds the routing record."""
        return f"{RECORD_LABEL}.{self.name}"

    @model_validator(mode="after")
    def _can_be_told_apart(self) -> DnsRoutingSettings:
        if not self.name.endswith(f".{self.zone}"):
            raise ValueError(f"name {self.name} is not below the zone {self.zone}; a zone's own name has no CNAME")
        if problem := name_problem(self.record_name):
            raise ValueError(f"the name {self.record_name} for the routing record is too long: {problem}")
        if len(set(self.expected.values())) < len(self.answers):
            raise ValueError("two clusters have the same answers; nobody could tell to which one the name leads")
        if any(name in (self.name, self.record_name) for name in self.answers.values()):
            raise ValueError(f"{self.name} cannot be its own answer")
        return self


RoutingSettings = Annotated[FileRoutingSettings | HttpRoutingSettings | DnsRoutingSettings, Field(discriminator="kind")]
