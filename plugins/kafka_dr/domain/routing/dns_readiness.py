"""Readiness of a shared DNS name: whether a redirect would be taken, and would reach clients in time."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_dr.domain.plain_text import first_few
from kafka_dr.domain.readiness.blocker import MOST_LISTED, Blocker
from kafka_dr.domain.readiness.observation import Observation
from kafka_dr.domain.routing.dns_view import DnsView

_CHECK = "dns_can_redirect"


def dns_can_redirect(o: Observation) -> Iterator[Blocker]:
    """Yield blockers if a redirect by DNS would be refused, reach clients late, or lead them to an untrusted broker.

    In an unplanned failover nobody can lower a TTL beforehand: so the standing TTL counts.
    """
    if o.dns is not None:
        yield from dns_blockers(o.dns, o.source.alias)


def dns_blockers(dns: DnsView, source: str) -> Iterator[Blocker]:
    """Yield what `dns_can_redirect` finds about a name that leads clients to the cluster `source`."""
    yield from _refused(dns, source)
    yield from _lagging(dns)
    yield from _kept_too_long(dns)
    yield from _nameless(dns)


def _refused(dns: DnsView, source: str) -> Iterator[Blocker]:
    if dns.refused:
        yield Blocker(
            _CHECK,
            f"The DNS name {dns.name} cannot be redirected",
            dns.refused,
            "Make the zone's primary server answer, let its operators allow the connection's TSIG key to update this"
            " name and the name of its routing record, or lead the name to a cluster that the topology names.",
        )
    elif dns.leads_to != source:
        yield Blocker(
            _CHECK,
            f"The DNS name {dns.name} does not lead to {source}",
            f"it leads to {dns.leads_to or 'no cluster'}",
            f"Find out where clients are. If they are on {source}, lead the name there; else start the procedure in"
            " the other direction.",
        )


def _lagging(dns: DnsView) -> Iterator[Blocker]:
    answering = [server for server in dns.servers if server.answers is not None]
    newest = max(answering, key=lambda server: server.serial or 0, default=None)
    late = [] if newest is None or newest.answers is None else dns.lagging(newest.answers)
    if late:
        yield Blocker(
            _CHECK,
            f"Authoritative DNS servers answer differently for {dns.name}",
            first_few([newest, *late], MOST_LISTED, "; "),
            "Make the servers with the lower serial number transfer the zone, or take them out of its NS records: a"
            " redirect would not reach clients whose resolvers ask these servers.",
        )


def _kept_too_long(dns: DnsView) -> Iterator[Blocker]:
    limits = {"ttl_seconds of the topology's routing": dns.most_ttl, "rto_seconds of the flow": dns.rto_seconds}
    most = {name: seconds for name, seconds in limits.items() if seconds is not None}
    name, limit = min(most.items(), key=lambda item: item[1])
    late = [server for server in dns.servers if server.ttl is not None and server.ttl > limit]
    if late:
        ttls = [f"{server.server}: {server.ttl} s" for server in late]
        yield Blocker(
            _CHECK,
            f"Resolvers may keep the former answer for {dns.name} for too long",
            f"TTL {first_few(ttls, MOST_LISTED, '; ')}; limit {limit:g} s ({name})",
            "Lower the TTL of the name's records now; the new TTL counts once the old one is over. Or raise the limit.",
        )


def _nameless(dns: DnsView) -> Iterator[Blocker]:
    for alias, brokers in sorted(dns.nameless.items()):
        yield Blocker(
            _CHECK,
            f"Brokers of {alias} have no certificate for {dns.name}",
            first_few(brokers, MOST_LISTED, "; "),
            f"Give the brokers of {alias} certificates that also name {dns.name}: clients that begin at this name"
            " refuse a broker whose certificate lacks it.",
        )


def dns_notes(o: Observation) -> Iterator[str]:
    """Yield what a redirect by DNS cannot show, and what it means for clients that run."""
    dns = o.dns
    if dns is None:
        return
    if dns.silent:
        yield f"Authoritative DNS servers that do not answer: {first_few(dns.silent, MOST_LISTED, '; ')}."
    yield (
        f"Clients find their cluster by the DNS name {dns.name}: resolvers may give the former answer for {dns.kept} s"
        " after redirect_clients. A client that runs does not look the name up again while one of its brokers answers,"
        f" and the brokers of {o.source.alias} go on answering behind the fence: every client must be restarted, but"
        " for those that the drain hook stops and starts (runbooks/redirect.md)."
    )


def dns_loss_notes(dns: DnsView | None) -> Iterator[str]:
    """Yield what a redirect by DNS means for clients of a lost source; it is too late to lower the standing TTL."""
    if dns is None:
        return
    if dns.refused:
        yield (
            f"The DNS name {dns.name} cannot be redirected now ({dns.refused}): until that is mended, redirect_clients"
            " fails, after the target was opened."
        )
    yield (
        f"Clients find their cluster by the DNS name {dns.name}: resolvers may give the former answer for {dns.kept} s"
        " after redirect_clients, and nobody can shorten that now. Have every client restarted: only some look the name"
        " up again by themselves, and their consumers may read on at positions of the source (runbooks/redirect.md)."
    )
