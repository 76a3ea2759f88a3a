"""Connectors' offsets, tasks and groups' positions, looked at every second while a drill runs beside them."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import requests
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka.admin import AdminClient

from lab.checker.findings import Finding
from lab.checker.untouched.site_state import REQUEST_SECONDS, ConnectReader, task_states
from lab.threads import run_beside

SECONDS = 1.0
#: In the name of everything that a drill makes.
DRILL = "switchback-drill"


class SiteLook(NamedTuple):
    """What one look saw on both sites.

    Args:
        at: seconds since the epoch.
        tasks: connector or task -> `STATE on WORKER`.
        offsets: connector and partition -> offset that Connect has stored.
        positions: group and partition -> committed position.
    """

    at: float
    tasks: Mapping[str, str]
    offsets: Mapping[str, int]
    positions: Mapping[str, int]


class Sampler:
    """Looks at production's connectors and groups every second.

    Args:
        status: the lab's status document.
        groups: groups of production's clients, by cluster alias.

    Attributes:
        samples: what was seen, in order.
        failed: errors of looks that saw nothing.
    """

    def __init__(self, status: Mapping[str, Any], groups: Mapping[str, Sequence[str]]) -> None:
        self._groups = groups
        properties = {alias: one["client_properties"]["admin"] for alias, one in status["clusters"].items()}
        self._admins = {alias: AdminClient({**own, "log_level": 0}) for alias, own in properties.items()}
        self._workers = {
            alias: ConnectReader(one["connect_url"], properties[alias]) for alias, one in status["clusters"].items()
        }
        self.samples: list[SiteLook] = []
        self.failed: list[str] = []

    def watching(self) -> AbstractContextManager[None]:
        """Look while the block runs."""
        return run_beside(self._watch)

    def _watch(self, ended: threading.Event) -> None:
        while not ended.is_set():
            begun = time.monotonic()
            try:
                self.samples.append(self._look())
            except (requests.RequestException, KafkaException) as error:
                self.failed.append(str(error))
            ended.wait(max(0.0, SECONDS - (time.monotonic() - begun)))

    def _look(self) -> SiteLook:
        at, tasks, offsets = time.time(), dict[str, str](), dict[str, int]()
        for alias, worker in self._workers.items():
            for name, found in worker.connectors().items():
                tasks |= {f"{alias}: {task}": state for task, state in task_states(name, found).items()}
                for row in worker.read(f"/connectors/{name}/offsets")["offsets"]:
                    offsets[f"{alias}: {name} {json.dumps(row['partition'], sort_keys=True)}"] = row["offset"]["offset"]
        return SiteLook(at, tasks, offsets, self._positions())

    def _positions(self) -> dict[str, int]:
        pending = {
            (alias, group): self._admins[alias].list_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(group)], request_timeout=REQUEST_SECONDS
            )[group]
            for alias, groups in self._groups.items()
            for group in groups
        }
        return {
            f"{alias}: {group} {place.topic}-{place.partition}": place.offset
            for (alias, group), future in pending.items()
            for place in future.result().topic_partitions or ()
        }


def sample_findings(samples: Sequence[SiteLook]) -> list[Finding]:
    """Return a finding for each task that moved, each offset or position that fell or vanished, and foreign offset."""
    return [
        *_changed_tasks(samples),
        *_fallen("connector offset", [one.offsets for one in samples]),
        *_fallen("position", [one.positions for one in samples]),
        *(
            Finding("untouched", f"a connector of production has an offset of a drill: {name}")
            for name in sorted({name for one in samples for name in one.offsets if DRILL in name})
        ),
    ]


def count_grown(samples: Sequence[SiteLook]) -> int:
    """Return how many connector offsets are greater in the last sample than in the first."""
    first, last = samples[0].offsets, samples[-1].offsets
    return sum(1 for name, offset in last.items() if offset > first.get(name, -1))


def _changed_tasks(samples: Sequence[SiteLook]) -> Iterator[Finding]:
    for earlier, later in itertools.pairwise(samples):
        for name in sorted({*earlier.tasks, *later.tasks}):
            then, now = earlier.tasks.get(name, "absent"), later.tasks.get(name, "absent")
            if then != now:
                yield Finding("untouched", f"task {name} was {then}, is {now}")


def _fallen(what: str, looks: Sequence[Mapping[str, int]]) -> Iterator[Finding]:
    highest: dict[str, int] = {}
    for seen in looks:
        for name in sorted(highest.keys() - seen.keys()):
            yield Finding("untouched", f"{what} {name} was {highest.pop(name)}, is absent")
        for name, offset in seen.items():
            if offset < highest.get(name, offset):
                yield Finding("untouched", f"{what} {name} fell from {highest[name]} to {offset}")
            highest[name] = max(offset, highest.get(name, offset))
