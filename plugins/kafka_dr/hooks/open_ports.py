"""Tells an address that nobody listens on from one whose server does not answer."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit


def accepts_connection(address: str, seconds: float) -> bool:
    """Whether an address, `host:port` or `PROTOCOL://host:port`, accepts a connection in time.

    The connection is closed again before anything is sent. A process that is frozen still accepts connections.
    """
    # Kafka's names of protocols, such as SASL_SSL, are none that URLs may have.
    place = urlsplit(f"//{address.rpartition('//')[2]}")
    try:
        with socket.create_connection((place.hostname or "", place.port or 0), seconds):
            return True
    except (OSError, ValueError):
        return False
