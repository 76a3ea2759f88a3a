"""Whether every connection that the topology names exists and has usable settings, and its addresses answer."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator
from functools import partial

from kafka_dr.actions.doctor.site import NamedConnection, Site
from kafka_dr.actions.doctor.units import Unit
from kafka_dr.concurrently import run_concurrently
from kafka_dr.domain.doctor.finding import InstallationFinding
from kafka_dr.domain.doctor.identity import OtherLogin, SeenWorker
from kafka_dr.errors import ConnectUnavailable, KafkaUnavailable
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.doctor.addresses import AddressProblem, AddressState, http_context, kafka_context, look_at
from kafka_dr.hooks.json_endpoint import JsonEndpoint, checked_url

_SECONDS = 10.0
_CLUSTER_SECONDS = 20.0
_REFUSED_LOGIN = (401, 403)
#: Problem of an address -> reason, and what to do.
_PROBLEMS = {
    AddressProblem.NAME: (
        "does not resolve to an IP address on this machine",
        "Correct the name in the connection, or give this machine the name in its DNS or /etc/hosts.",
    ),
    AddressProblem.CONNECTION: (
        "takes no connection from this machine",
        "Start the server, correct host and port in the connection, or open the network from this machine to it.",
    ),
    AddressProblem.CERTIFICATE: (
        "shows a certificate that this machine does not accept",
        (
            "Name the CA that has signed it in the connection's extra (`ssl.ca.location` for Kafka, `verify` for HTTP),"
            " or replace the server's certificate if it has ended or lacks the server's name"
            " (runbooks/certificates.md)."
        ),
    ),
    AddressProblem.TLS: (
        "does not speak TLS as the connection asks for",
        (
            "Compare `security.protocol`, or https:// in the address, with the server's listener; give the client's"
            " certificate if the server demands one."
        ),
    ),
}


def connection_units(site: Site) -> Iterator[Unit]:
    """Yield a unit for each connection: that it exists, and that its settings can be used."""
    for one in site.named:
        yield Unit("connections", one.name, partial(_settings, site, one))


def _settings(site: Site, one: NamedConnection) -> Iterator[InstallationFinding]:
    """Read a connection as its users do; each error is the finding."""
    read = site.connections
    if one.kind == "kafka":
        KafkaCluster(one.alias, read.kafka(one.name)).close()
    elif one.kind == "http":
        read.tls(one.name)
        for url in read.login(one.name)[0].split(","):
            checked_url(url, one.name)
    elif one.kind == "api":
        read.api_login(one.name)
        read.tls(one.name)
    else:
        readers = {
            "journal": read.journal_url,
            "spark": read.check_spark,
            "files": read.archive_options,
            "dns": read.dns,
            "token": read.token,
            "notice": read.login,
        }
        readers[one.kind](one.name)
    return iter(())


def reach_units(site: Site) -> Iterator[Unit]:
    """Yield a unit for each Kafka and HTTP connection: names, ports, certificates, login."""
    for one in site.of_kind("kafka"):
        yield Unit("reach", one.name, partial(_reach_cluster, site, one), (f"connections {one.name}",))
    for one in site.of_kind("http"):
        look = _reach_workers if one.role == "connect" else _reach_hook
        yield Unit("reach", one.name, partial(look, site, one), (f"connections {one.name}",))


def _reach_cluster(site: Site, one: NamedConnection) -> Iterator[InstallationFinding]:
    config = site.connections.kafka(one.name)
    context = kafka_context(config, one.alias)
    servers = [server.strip() for server in str(config["bootstrap.servers"]).split(",")]
    states = look_at_all(servers, context)
    yield from address_findings(one.alias, one.name, states)
    if not any(state.problem is AddressProblem.NONE for state in states):
        return
    cluster = KafkaCluster(one.alias, config)
    try:
        cluster_id = cluster.cluster_id(_CLUSTER_SECONDS)
        if one.role != "cluster":
            site.other_logins.append(OtherLogin(one.name, one.alias, cluster_id))
            return
        site.ids[one.alias] = cluster_id
        brokers = {f"{broker.host}:{broker.port}": broker.id for broker in cluster.brokers(_CLUSTER_SECONDS)}
        yield from _advertised(one, look_at_all([a for a in brokers if a not in servers], context), brokers)
    except KafkaUnavailable as error:
        if "_AUTHENTICATION" in error.seen:
            yield InstallationFinding(
                "reach",
                one.name,
                f"The brokers refuse the login of {one.name}",
                error.seen,
                "Correct user, password and `sasl.mechanism` in the connection, or create the user on the cluster"
                " (runbooks/logins.md).",
            )
        elif error.may_pass:
            yield InstallationFinding(
                "reach",
                one.name,
                f"No broker answers {one.name}, although its addresses take connections",
                error.seen,
                "Compare `security.protocol` and port in the connection with the brokers' listeners: a listener that"
                " asks for TLS or a login, and a program that is no broker, end the connection. If they are right, read"
                " the brokers' logs.",
                may_pass=True,
            )
        else:
            raise
    finally:
        cluster.close()


def _advertised(
    one: NamedConnection, states: list[AddressState], brokers: dict[str, int]
) -> Iterator[InstallationFinding]:
    for state in states:
        if state.problem is not AddressProblem.NONE:
            reason, _ = _PROBLEMS[state.problem]
            yield InstallationFinding(
                "reach",
                f"{one.alias} {state.address}",
                f"A broker of {one.alias} advertises {state.address}, which {reason}",
                f"broker {brokers[state.address]}: {state.seen}",
                "Correct `advertised.listeners` of the broker for the listener of this connection, or give this machine"
                " the name, the network or the CA that it needs.",
                may_pass=state.problem is not AddressProblem.CERTIFICATE,
            )


def look_at_all(addresses: list[str], context: ssl.SSLContext | None) -> list[AddressState]:
    """Look at addresses side by side."""
    with run_concurrently() as start:
        answers = [start(look_at, address, context, _SECONDS) for address in addresses]
    return [answer.result() for answer in answers]


def address_findings(about: str, connection: str, states: list[AddressState]) -> Iterator[InstallationFinding]:
    """Yield a finding for each address that cannot be used; one for all of them if all have the same problem.

    Args:
        about: cluster or system, which is the same for all connections that lead there.
    """
    bad = [state for state in states if state.problem is not AddressProblem.NONE]
    alike = len(bad) == len(states) and len({state.problem for state in bad}) == 1
    for state in bad[:1] if alike else bad:
        reason, todo = _PROBLEMS[state.problem]
        addresses = ", ".join(one.address for one in bad) if alike else state.address
        yield InstallationFinding(
            "reach",
            f"{about} {addresses}",
            f"The address {addresses} of {about} {reason}",
            f"connection {connection}: {state.seen}",
            todo,
            may_pass=state.problem is not AddressProblem.CERTIFICATE,
        )


def _reach_hook(site: Site, one: NamedConnection) -> Iterator[InstallationFinding]:
    urls = site.connections.login(one.name)[0].split(",")
    tls = site.connections.tls(one.name)
    states = [look_at(url, http_context(url, tls, one.name), _SECONDS) for url in urls]
    if one.role == "application hook":
        states = [state for state in states if state.problem is AddressProblem.NAME]
    yield from address_findings(one.name, one.name, states)


def _reach_workers(site: Site, one: NamedConnection) -> Iterator[InstallationFinding]:
    """Look at each worker of a Connect cluster; keep which Kafka cluster they use, and their clocks."""
    url, user, password = site.connections.login(one.name)
    tls = site.connections.tls(one.name)
    workers = url.split(",")
    states = [look_at(worker, http_context(worker, tls, one.name), _SECONDS) for worker in workers]
    yield from address_findings(one.name, one.name, states)
    for worker in [state.address for state in states if state.problem is AddressProblem.NONE]:
        endpoint = JsonEndpoint(worker, "Connect", ConnectUnavailable, (user, password) if user else None, tls)
        sent = time.time()
        answer = endpoint.attempt("GET", "/", timeout=_CLUSTER_SECONDS)
        if answer.status in _REFUSED_LOGIN:
            yield InstallationFinding(
                "reach",
                one.name,
                f"Connect refuses the login of {one.name}",
                answer.seen,
                "Correct login and password, or the bearer token, in the connection.",
            )
        elif not answer.ok or not isinstance(answer.body, dict) or "kafka_cluster_id" not in answer.body:
            yield InstallationFinding(
                "reach",
                f"{one.name} {worker}",
                f"The address {worker} of {one.name} does not answer as a Connect worker",
                answer.seen,
                "Correct the address in the connection, or read in the worker's log why it serves no REST API.",
                may_pass=True,
            )
        else:
            site.workers[one.name] = SeenWorker(one.name, one.alias, str(answer.body["kafka_cluster_id"]))
            site.note_clock(f"the Connect worker {worker}", answer.date, sent, time.time(), 1.0)
