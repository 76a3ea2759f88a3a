"""Free ports, below the range the kernel hands to clients, and never the same for two labs that start at once."""

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
    """Reserve one free port on 127.0.0.1 for each name.

    Another lab asking within ten minutes gets others, even if these are not bound yet.
    """
    book = cache_folder() / "ports.json"
    with exclusive_lock(book):
        taken = _recently_reserved(book)
        chosen = _choose(len(names), taken)
        now = time.time()
        book.write_text(json.dumps(taken | {str(port): now for port in chosen}))
    return dict(zip(names, chosen, strict=True))


def _recently_reserved(book: Path) -> dict[str, float]:
    try:
        reserved = json.loads(book.read_text())
    except (OSError, ValueError):
        return {}
    oldest = time.time() - RESERVED_SECONDS
    return {port: when for port, when in reserved.items() if when > oldest}


def _choose(count: int, taken: dict[str, float]) -> list[int]:
    chosen: list[int] = []
    for port in random.sample(range(LOWEST, HIGHEST), HIGHEST - LOWEST):
        if str(port) not in taken and _is_free(port):
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
