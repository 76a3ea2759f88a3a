"""Notes on how Switchback and MirrorMaker 2 log in: without TLS, without a check of host names, by other CAs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafka_dr.domain.logins.client_login import NO_SASL, checks_hosts, mechanism_of, protocol_of
from kafka_dr.domain.plain_text import first_few
from kafka_dr.domain.readiness.blocker import MOST_LISTED

#: Prefixes of a connector's settings for its clients of both clusters.
_ENDS = ("source.cluster.", "target.cluster.")


@dataclass(frozen=True)
class LoginView:
    """How one client logs in to one system.

    Attributes:
        name: Airflow connection, or connector and end, that states the login.
        secured: whether what is sent travels over TLS.
        mechanism: mechanism of SASL, or `password` of an HTTP login; NO_SASL without either.
        checks_hosts: whether the host's name is compared with the certificate.
        authorities: CAs that the client trusts besides public ones: SHA-256 of the certificate -> its subject.
    """

    name: str
    secured: bool
    mechanism: str = NO_SASL
    checks_hosts: bool = True
    authorities: Mapping[str, str] = field(default_factory=dict)


def kafka_login(name: str, config: Mapping[str, Any], authorities: Mapping[str, str] | None = None) -> LoginView:
    """Return how a client with these settings logs in; the settings may be librdkafka's or Java's."""
    secured = protocol_of(config).endswith("SSL")
    hosts = checks_hosts(config) if secured else True
    return LoginView(name, secured, mechanism_of(config), hosts, authorities or {})


def connector_logins(name: str, config: Mapping[str, str]) -> Iterator[LoginView]:
    """Yield how a connector logs in to both clusters, as far as its configuration states it."""
    for end in _ENDS:
        own = {key.removeprefix(end): value for key, value in config.items() if key.startswith(end)}
        if "security.protocol" in own:
            yield kafka_login(f"{name} ({end.rstrip('.')})", own)


def login_notes(logins: Iterable[LoginView], clusters: Mapping[str, LoginView], unknown: Iterable[str]) -> list[str]:
    """Return a sentence for each weakness of the logins.

    Args:
        logins: all clients.
        clusters: alias -> Switchback's own login to the cluster, for the source first and the target second.
        unknown: clients' users that only the source is known to have, because the target has other logins.
    """
    logins = list(logins)
    open_logins = [f"{one.name} ({one.mechanism})" for one in logins if not one.secured and one.mechanism != NO_SASL]
    unchecked = [one.name for one in logins if not one.checks_hosts]
    notes = []
    if open_logins:
        notes.append(
            "Logins without TLS: whoever reads the network between these clients and their systems reads all that they"
            f" send, and of PLAIN and HTTP also the password: {first_few(open_logins, MOST_LISTED)}."
        )
    if unchecked:
        notes.append(
            "Host names are not checked (ssl.endpoint.identification.algorithm): whoever has any certificate of a"
            f" trusted CA can answer in place of a broker: {first_few(unchecked, MOST_LISTED)}."
        )
    return [*notes, *_one_sided(clusters), *_other_logins(clusters, sorted(unknown))]


def _one_sided(clusters: Mapping[str, LoginView]) -> Iterator[str]:
    """Yield a note for each cluster whose connection trusts a CA that no other cluster's connection trusts."""
    for alias, login in clusters.items():
        elsewhere = {one for other, view in clusters.items() if other != alias for one in view.authorities}
        only = sorted(subject for one, subject in login.authorities.items() if one not in elsewhere)
        if only:
            yield (
                f"Only the connection of {alias} trusts these CAs: {first_few(only, MOST_LISTED)}. A client that does"
                f" not trust them, too, cannot connect to {alias}."
            )


def _other_logins(clusters: Mapping[str, LoginView], unknown: list[str]) -> Iterator[str]:
    ways = {alias: login.mechanism or "certificate, or none" for alias, login in clusters.items()}
    if len(set(ways.values())) > 1:
        stated = ", ".join(f"{alias}: {way}" for alias, way in ways.items())
        users = f" The target has no SCRAM user of {first_few(unknown, MOST_LISTED)}." if unknown else ""
        yield (
            f"Switchback logs in to the clusters in different ways ({stated}): whether every client has a login for the"
            f" target, and is the same principal there, is unknown.{users}"
        )
