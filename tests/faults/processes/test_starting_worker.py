"""A Connect worker that starts: what it does not list yet must not count as absent."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from kafka_dr.errors import ConnectUnavailable
from kafka_dr.hooks.connect.marker_connector import MarkerConnector
from kafka_dr.hooks.connect.mirror_maker import MirrorMaker

from lab.environment.production.site import start_processes
from lab.environment.state import Lab
from tests.faults.support.scene import until

ALIAS, STARTS, SECONDS = "standby", 3, 120.0
FLOW = [f"primary-to-standby-{kind}" for kind in ("source", "checkpoint", "heartbeat")]


def test_a_starting_worker_hides_no_connector(fresh_lab: Callable[..., Path]) -> None:
    """Kill -9 and start again; each connector is listed, and exists, in every answer."""
    lab = Lab(fresh_lab("identity", airflow=False))
    url = lab.status()["clusters"][ALIAS]["connect_url"]
    worker, marker = MirrorMaker(url, request_seconds=1.0), MarkerConnector(url)
    assert marker.restore() == ""
    listed, existing, changes = Counter[str](), Counter[str](), Counter[str]()
    for _ in range(STARTS):
        os.kill(lab.processes.pid(f"connect-{ALIAS}"), signal.SIGKILL)
        until(lambda: lab.processes.pid(f"connect-{ALIAS}") is None, "the worker's end", SECONDS)
        start = threading.Thread(target=start_processes, args=(lab, f"connect-{ALIAS}"))
        start.start()
        ends_at = time.monotonic() + SECONDS
        answered = existing[str(len(FLOW))]
        while existing[str(len(FLOW))] < answered + 5 and time.monotonic() < ends_at:
            for counter, look in (
                (listed, lambda: str(len(set(FLOW) & set(worker.connectors(timeout=0.2))))),
                (existing, lambda: str(len(worker.existing(FLOW, timeout=0.5)))),
                (changes, lambda: marker.find_change(timeout=0.5)),
            ):
                try:
                    counter[look()] += 1
                except ConnectUnavailable:
                    counter["no answer"] += 1
        start.join(SECONDS)
    print(f"listed {dict(listed)}; existing {dict(existing)}; changes {dict(changes)}", flush=True)
    assert set(listed) <= {str(len(FLOW)), "no answer"}
    assert set(existing) <= {str(len(FLOW)), "no answer"} and existing[str(len(FLOW))] > 0
    assert set(changes) <= {"", "no answer"} and changes[""] > 0
