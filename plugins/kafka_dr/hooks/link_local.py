"""Refuses HTTP requests to link-local addresses, such as a cloud's metadata service, under any name."""

from __future__ import annotations

import ipaddress
import socket
from contextlib import suppress
from typing import Any

from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import NewConnectionError


def is_link_local(host: str) -> bool:
    """Whether a host is a link-local address, in any form that resolvers accept; names are not resolved."""
    address = _address_of(host.partition("%")[0])
    return address is not None and (getattr(address, "ipv4_mapped", None) or address).is_link_local


def _address_of(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    with suppress(ValueError):
        return ipaddress.ip_address(host)
    # Resolvers also accept 2852039166, 0xa9fea9fe, 0251.0376.0251.0376 and 169.254.43518 as addresses.
    with suppress(OSError):
        return ipaddress.IPv4Address(socket.inet_aton(host))
    return None


class _Guarded:
    """A connection that is closed before anything is sent if its peer has a link-local address.

    The check uses the connected peer's address, because a second look-up of the host name may give another address.
    """

    def _new_conn(self) -> socket.socket:
        connected: socket.socket = super()._new_conn()  # type: ignore[misc]  # of the connection it is mixed into
        if is_link_local(str(connected.getpeername()[0])):
            connected.close()
            raise NewConnectionError(self, "the host name resolves to a link-local address")  # type: ignore[arg-type]
        return connected


class _GuardedHttp(_Guarded, HTTPConnection):
    """A guarded connection without encryption."""


class _GuardedHttps(_Guarded, HTTPSConnection):
    """A guarded connection with TLS."""


class _HttpPool(HTTPConnectionPool):
    ConnectionCls = _GuardedHttp


class _HttpsPool(HTTPSConnectionPool):
    ConnectionCls = _GuardedHttps


class GuardedAdapter(HTTPAdapter):
    """An HTTP adapter, for sessions of `requests`, whose connections refuse link-local peers."""

    def init_poolmanager(self, *args: Any, **settings: Any) -> None:
        """Create the adapter's pools with guarded connections."""
        super().init_poolmanager(*args, **settings)
        self.poolmanager.pool_classes_by_scheme = {"http": _HttpPool, "https": _HttpsPool}
