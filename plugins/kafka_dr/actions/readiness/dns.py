"""Look at the shared DNS name by which clients find their cluster, and at the brokers' certificates for it."""

from __future__ import annotations

from dataclasses import replace

from kafka_dr.concurrently import run_concurrently
from kafka_dr.domain.routing.dns_answers import certificate_covers
from kafka_dr.domain.routing.dns_readiness import dns_loss_notes
from kafka_dr.domain.routing.dns_view import DnsView
from kafka_dr.hooks.certificates import names_of_server
from kafka_dr.procedure.run import Run

_SECONDS = 5.0


def see_dns(procedure: Run) -> DnsView | None:
    """Return the shared DNS name as its servers answer it; None if clients do not find their cluster by DNS.

    The name's primary server is sent an update that changes nothing.
    """
    view = _view(procedure)
    if view is None:
        return None
    request = procedure.request
    nameless = {alias: _nameless(procedure, alias, view.name) for alias in (request.source, request.target)}
    found = {alias: brokers for alias, brokers in nameless.items() if brokers}
    return replace(view, rto_seconds=procedure.flow.objectives.rto_seconds, nameless=found)


def notes_after_loss(procedure: Run) -> list[str]:
    """Return what a redirect by DNS means for clients of a lost source; [] if clients do not find theirs by DNS."""
    return list(dns_loss_notes(_view(procedure)))


def _view(procedure: Run) -> DnsView | None:
    routing = procedure.topology.routing
    return procedure.systems.dns_routing(routing).view(_SECONDS) if routing.kind == "dns" else None


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
