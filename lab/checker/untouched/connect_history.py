"""What production's Connect workers noted while a drill ran: changes of connectors, states of tasks, rebalances."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from lab.checker.findings import Finding
from lab.checker.readers import NothingRead, Place
from lab.checker.untouched.log_reader import read_messages

#: Workers write a new key for their own requests every hour.
_SESSION_KEY = "session-key"
_REBALANCED = "Joined group at generation"


def storage_topics(group: str) -> list[str]:
    """Return the topics in which the workers of a group keep connectors' configurations, and states of tasks."""
    return [f"{group}_configs", f"{group}_status"]


def read_changes(properties: Mapping[str, str], begins: Mapping[Place, int], ends: Mapping[Place, int]) -> list[str]:
    """Return a text for each record that workers have written to their topics between these offsets.

    Each start, stop and failure of a task is such a record, and so is each request that changes a connector.
    """
    messages = read_messages(properties, begins, ends)
    return [text for place, message in messages for text in _text_of(place, message.key(), message.value())]


def _text_of(place: Place, key: bytes, value: bytes | None) -> list[str]:
    name = key.decode("utf-8", "replace")
    state = json.loads(value).get("state", "") if value else "nothing"
    return [] if name == _SESSION_KEY else [f"{place[0]}: {name} {state}".rstrip()]


def read_rebalances(folder: Path, workers: Iterable[str], since: datetime) -> list[str]:
    """Return the lines with which workers have noted a new generation of their group since a time.

    Args:
        folder: folder of the workers' logs.
        workers: names of their processes.
        since: with a time zone; logs have local times.
    """
    lines = [
        f"{worker}: {line}"
        for worker in workers
        for path in sorted(folder.glob(f"{worker}.log*"))
        for line in path.read_text(errors="replace").splitlines()
        if _REBALANCED in line
    ]
    if not lines:
        raise NothingRead(f"no log of {', '.join(workers)} in {folder} names a generation: nothing could be compared")
    return [line for line in lines if _time_of(line) >= since]


def _time_of(line: str) -> datetime:
    return datetime.fromisoformat(line.split(": ", 1)[1].split(" ", 1)[0].replace(",", ".")).astimezone()


def history_findings(changes: Sequence[str], rebalances: Sequence[str]) -> list[Finding]:
    """Return a finding for each change and for each new generation of a group of production's workers."""
    return [
        *(Finding("untouched", f"production's Connect workers noted: {text}") for text in changes),
        *(Finding("untouched", f"production's Connect workers rebalanced: {line[:200]}") for line in rebalances),
    ]
