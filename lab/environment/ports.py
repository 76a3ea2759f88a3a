"""Reserve free TCP ports below the ephemeral range; labs that start at the same time get different ports."""

from __future__ import annotations

import json
import random
import socket
import time
from pathlib import Path

from lab.environment.locks import exclusive_lock
from lab.install.jars import cache_folder

LOWEST, HIGHEST = 15_000, 32_000
RESERVED_SECONDS = 600.0


def free_ports(names: list[str]) -> dict[str, int]:
    """Reserve one free port on 127.0.0.1 for each name; return the ports by name.

    For ten minutes no other lab gets these ports, even if nothing listens on them yet.
    """
    reservations = cache_folder() / "ports.json"
    with exclusive_lock(reservations):
        reserved = _recently_reserved(reservations)
        chosen = _choose(len(names), reserved)
        now = time.time()
        reservations.write_text(json.dumps(reserved | {str(port): now for port in chosen}))
    return dict(zip(names, chosen, strict=True))


def _recently_reserved(reservations: Path) -> dict[str, float]:
    try:
        reserved = json.loads(reservations.read_text())
    except (OSError, ValueError):
        return {}
    oldest = time.time() - RESERVED_SECONDS
    return {port: reserved_at for port, reserved_at in reserved.items() if reserved_at > oldest}


def _choose(count: int, reserved: dict[str, float]) -> list[int]:
    chosen: list[int] = []
    for port in random.sample(range(LOWEST, HIGHEST), HIGHEST - LOWEST):
        if str(port) not in reserved and _is_free(port):
            chosen.append(port)
        if len(chosen) == count:
            break
    return chosen


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
