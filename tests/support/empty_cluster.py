"""A broker that names itself once and afterwards names no broker, as a thawed cluster before it is in service."""

from __future__ import annotations

import socketserver
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_METADATA, _API_VERSIONS = 3, 18
#: (key, oldest, newest) of what it understands.
_UNDERSTOOD = ((_METADATA, 8, 8), (_API_VERSIONS, 0, 0))


class _Connection(socketserver.StreamRequestHandler):
    """Answers requests one after the other."""

    def handle(self) -> None:
        """Answer requests until the client disconnects."""
        while len(size := self.rfile.read(4)) == 4:
            request = self.rfile.read(*struct.unpack(">i", size))
            key, version, correlation = struct.unpack_from(">hhi", request)
            answer = struct.pack(">i", correlation) + (
                _versions(version) if key == _API_VERSIONS else self.server.metadata()
            )
            self.wfile.write(struct.pack(">i", len(answer)) + answer)


class _Server(socketserver.ThreadingTCPServer):
    """The broker."""

    daemon_threads = True
    named = False

    def metadata(self) -> bytes:
        """Return the cluster's metadata, with this broker in the first answer only."""
        ports, self.named = () if self.named else (self.server_address[1],), True
        return _cluster(*ports)


def _versions(asked: int) -> bytes:
    # Whoever asks in a newer way is told so, and asks again in the oldest.
    error = 35 if asked else 0
    return struct.pack(">hi", error, len(_UNDERSTOOD)) + b"".join(struct.pack(">hhh", *one) for one in _UNDERSTOOD)


def _cluster(*ports: int) -> bytes:
    """Return metadata, version 8: throttle time, brokers, no cluster id, the controller, no topic, no rights."""
    brokers = b"".join(struct.pack(">ih9sih", 1, 9, b"127.0.0.1", port, -1) for port in ports)
    return struct.pack(">ii", 0, len(ports)) + brokers + struct.pack(">hiii", -1, 1 if ports else -1, 0, 0)


@contextmanager
def empty_cluster() -> Iterator[str]:
    """Serve on a port of its own; yield the address."""
    with _Server(("127.0.0.1", 0), _Connection) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield "{}:{}".format(*server.server_address)
        finally:
            server.shutdown()
