"""Addresses that accept no connection and send no answer, as behind a broken network."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from lab.environment.state import Lab
from lab.rehearsal.planned import SOURCE

_HANGS_SECONDS, _HELD_SECONDS = 1.0, 10.0
_MOST_WAITING = 64


@contextmanager
def black_holed(ports: Iterable[int]) -> Iterator[None]:
    """Let connections to these ports of 127.0.0.1 hang: their listeners' queues are full, and the kernel drops more."""
    with ExitStack() as held:
        for port in ports:
            _swallow(held, port)
        yield


def source_ports(lab: Lab) -> list[int]:
    """Return the ports of the source's broker and of the Connect worker beside it."""
    ports = lab.load().ports
    return [ports[name] for name in (SOURCE, f"connect_{SOURCE}")]


def _swallow(held: ExitStack, port: int) -> None:
    listener = held.enter_context(socket.socket())
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    _bound(listener, port)
    listener.listen(0)
    for _ in range(_MOST_WAITING):
        waiting = held.enter_context(socket.socket())
        waiting.settimeout(_HANGS_SECONDS)
        try:
            waiting.connect(("127.0.0.1", port))
        except TimeoutError:
            return
    raise AssertionError(f"port {port} still answers after {_MOST_WAITING} connections: this kernel drops none")


def _bound(listener: socket.socket, port: int) -> None:
    """Bind a socket; a killed process holds its sockets until its last thread has ended."""
    for attempt in Retrying(
        retry=retry_if_exception_type(OSError), stop=stop_after_delay(_HELD_SECONDS), wait=wait_fixed(0.1), reraise=True
    ):
        with attempt:
            listener.bind(("127.0.0.1", port))
