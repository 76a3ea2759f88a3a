"""Ports of hanging addresses neither refuse nor answer, also where a process has just died."""

from __future__ import annotations

import socket

import pytest

from tests.faults.support.black_hole import black_holed


def just_died() -> int:
    """A port on which a server with a living connection was a moment ago."""
    with socket.socket() as server, socket.socket() as client:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        client.connect(("127.0.0.1", port))
        server.accept()[0].close()
    return port


def test_connections_hang_and_are_refused_afterwards() -> None:
    """Every one of them, and not only the first."""
    port = just_died()
    with black_holed([port]):
        for _ in range(3):
            with socket.socket() as client, pytest.raises(TimeoutError):
                client.settimeout(0.2)
                client.connect(("127.0.0.1", port))
    with socket.socket() as client, pytest.raises(ConnectionRefusedError):
        client.connect(("127.0.0.1", port))
