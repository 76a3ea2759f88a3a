"""Taking a lab down after a crash: the last test of its lab."""

from __future__ import annotations

import os
import signal

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from lab.environment.processes import Sighting, find_process
from lab.environment.progress import wait_until
from lab.environment.state import Lab
from lab.environment.take_down import down


def test_down_after_a_crash_stops_all_and_keeps_what_it_did_not_make(planned_lab: Lab) -> None:
    """With the scheduler and a worker killed, `down` still leaves no process, and keeps evidence and foreign files."""
    kept = planned_lab.evidence / "p-1" / "evidence.json"
    kept.parent.mkdir(parents=True)
    kept.write_text("{}")
    members, address = (
        planned_lab.processes.members(),
        planned_lab.status()["clusters"]["primary"]["client_properties"]["admin"],
    )
    for name in ("airflow-scheduler", "connect-standby"):
        os.kill(planned_lab.processes.pid(name) or 0, signal.SIGKILL)
    down(planned_lab.root)
    down(planned_lab.root)
    # A large process that was killed is seen until its memory is freed, though it runs no more.
    wait_until(lambda: not any(map(_is_there, members.values())), "the end of all processes", 10.0)
    assert sorted(path.name for path in planned_lab.root.iterdir()) == ["evidence", "mine.txt"]
    assert kept.exists()
    with pytest.raises(KafkaException):
        AdminClient({**address, "log_level": 0}).list_topics(timeout=2)


def _is_there(process: Sighting) -> bool:
    seen = find_process(process.pid)
    return seen is not None and seen.started == process.started and seen.state != "Z"
