"""Look at the shared DNS name by which clients find their cluster, and at the brokers' certificates for it."""

from __future__ import annotations

from dataclasses import replace

from kafka_dr.concurrently import run_concurrently
from kafka_dr.domain.routing.dns_answers import certificate_covers
from kafka_dr.domain.routing.dns_view import DnsView
from kafka_dr.hooks.certificates import names_of_server
from kafka_dr.procedure.run import Run

_SECONDS = 5.0


def see_dns(procedure: Run) -> DnsView | None:
    """Return the shared DNS name as its servers answer it; None if clients do not find their cluster by DNS.

    The name's primary server is sent an update that changes nothing.
    """
    routing = procedure.topology.routing
    if routing.kind != "dns":
        return None
    request = procedure.request
    view = procedure.systems.dns_routing(routing).view(_SECONDS)
    nameless = {alias: _nameless(procedure, alias, view.name) for alias in (request.source, request.target)}
    found = {alias: brokers for alias, brokers in nameless.items() if brokers}
    return replace(view, rto_seconds=procedure.flow.objectives.rto_seconds, nameless=found)


def _nameless(procedure: Run, alias: str, name: str) -> tuple[str, ...]:
    """Return the servers of a cluster whose certificate lacks the name, as text; () for a cluster without TLS.

    A server that shows no certificate is left out: other checks name a broker that does not answer.
    """
    settings = procedure.systems.connections.kafka(procedure.topology.cluster(alias).connection)
    if "SSL" not in str(settings.get("security.protocol", "")).upper().replace("SASL_PLAINTEXT", ""):
        return ()
    addresses = [server.strip() for server in settings["bootstrap.servers"].split(",")]
    with run_concurrently() as start:
        shown = [(address, start(names_of_server, address, name.removesuffix("."))) for address in addresses]
    names = [(address, answer.result()) for address, answer in shown]
    return tuple(
        f"{address} ({', '.join(known) or 'no name'})"
        for address, known in names
        if known is not None and not certificate_covers(known, name)
    )
