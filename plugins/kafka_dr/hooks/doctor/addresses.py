"""Looks at one address: whether its name resolves, a server listens, and its certificate can be verified."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from kafka_dr.domain.logins.client_login import checks_hosts, protocol_of
from kafka_dr.errors import BadInput
from kafka_dr.hooks.http_tls import HttpTls
from kafka_dr.hooks.logins.python_client import tls_context
from kafka_dr.hooks.redaction import one_line

_PORTS = {"http": 80, "https": 443}


class AddressProblem(StrEnum):
    """What is wrong with an address."""

    NONE = "none"
    NAME = "name"
    CONNECTION = "connection"
    CERTIFICATE = "certificate"
    TLS = "tls"


class AddressState(NamedTuple):
    """One address as it was seen; `seen`: the error's text."""

    address: str
    problem: AddressProblem
    seen: str = ""


def look_at(address: str, context: ssl.SSLContext | None, seconds: float) -> AddressState:
    """Resolve a name, connect, and with a context verify the server's certificate; nothing else is sent.

    Args:
        address: `host:port`, or a URL.
        context: None without TLS.
        seconds: limit of each of the steps.
    """
    try:
        parts = urlsplit(address if "://" in address else f"//{address}")
        host, port = parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)
        socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError, ValueError) as error:
        return AddressState(address, AddressProblem.NAME, one_line(error))
    try:
        with socket.create_connection((host, port), seconds) as plain:
            if context is not None:
                with context.wrap_socket(plain, server_hostname=host):
                    pass
    except ssl.SSLCertVerificationError as error:
        return AddressState(address, AddressProblem.CERTIFICATE, one_line(error.verify_message))
    except ssl.SSLError as error:
        return AddressState(address, AddressProblem.TLS, one_line(error.reason or error))
    except OSError as error:
        return AddressState(address, AddressProblem.CONNECTION, one_line(error))
    return AddressState(address, AddressProblem.NONE)


def kafka_context(config: Mapping[str, Any], alias: str) -> ssl.SSLContext | None:
    """Return how a client with these settings of librdkafka verifies brokers; None without TLS.

    Raises:
        BadInput: a certificate or key of the settings cannot be read or used.
    """
    if not protocol_of(config).endswith("SSL"):
        return None
    context = tls_context(config, alias)
    context.check_hostname = checks_hosts(config)
    return context


def http_context(url: str, tls: HttpTls, connection: str) -> ssl.SSLContext | None:
    """Return how an HTTP client verifies the server of a URL; None without TLS.

    Raises:
        BadInput: a certificate or key cannot be read or used.
    """
    if not url.startswith("https:"):
        return None
    try:
        context = ssl.create_default_context(cafile=tls.verify or None)
        # Requests does not ask for this.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if tls.cert:
            # Without this function OpenSSL would ask for a key's password on the terminal, and wait.
            context.load_cert_chain(tls.cert, tls.key or None, password=str)
    except (OSError, ValueError) as error:
        raise BadInput(
            f"Connection {connection} names a certificate that cannot be read",
            f"{', '.join(filter(None, (tls.verify, tls.cert, tls.key)))}: {one_line(error)}",
            "Correct the path in the connection's extra, copy the file to every machine where tasks run, and let the"
            " user of Airflow's tasks read it.",
        ) from None
    return context
