"""One real broker without Connect and Airflow, for what concerns brokers alone: up in seconds."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lab.environment.bring_up import PORTS, make_record
from lab.environment.brokers import start_broker
from lab.environment.ports import free_ports
from lab.environment.progress import ProgressLines
from lab.environment.state import Lab
from lab.environment.take_down import down

ALIAS = "primary"


@contextmanager
def one_broker(folder: Path, heap: str = "512m") -> Iterator[Mapping[str, Any]]:
    """Start a broker in the folder, and stop it at the end; yield librdkafka's settings of its super user."""
    lab, before = Lab(folder), os.environ.get("SWITCHBACK_BROKER_HEAP")
    lab.save(make_record("identity", "read_uncommitted", free_ports(PORTS)))
    os.environ["SWITCHBACK_BROKER_HEAP"] = heap
    try:
        start_broker(lab, ALIAS)
        yield lab.client_properties(ALIAS, "admin")
    finally:
        os.environ.pop("SWITCHBACK_BROKER_HEAP")
        os.environ.update({} if before is None else {"SWITCHBACK_BROKER_HEAP": before})
        down(folder, ProgressLines(quiet=True))
