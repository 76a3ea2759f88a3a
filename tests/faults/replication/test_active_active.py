"""An active-active pair: both flows run, both clusters take writes, and every placing is judged by records."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lab.checker import CheckResult
from lab.checker.readers import ClusterReader, Place
from lab.checker.topologies.global_view import check_placings
from lab.environment.connect import call_worker, connector_name
from lab.environment.layout.flows import ACTIVE_ACTIVE
from lab.environment.state import Lab
from lab.rehearsal.round_trip import Leaving
from tests.faults.support.scene import until
from tests.faults.support.trips import SteppedTrips, stepped_trips
from tests.support.rehearsals import SEED
from tests.support.topologies.own_clients import OwnProducer, commit, create_topics

EAST, WEST = "primary", "standby"
#: Topics of one name on both clusters, written by the clients of each.
SHARED = {"both-1": 2, "both-2": 1}
RATE = 500


def places(prefix: str = "") -> list[Place]:
    """Partitions of the shared topics, or of their copies."""
    return [(f"{prefix}{topic}", partition) for topic, count in SHARED.items() for partition in range(count)]


COPIES_ON_EAST = dict(zip(places(f"{WEST}."), places(), strict=True))
COPIES_ON_WEST = dict(zip(places(), places(f"{EAST}."), strict=True))


class Pair:
    """An active-active lab whose shared topics get records on both clusters, and groups with a global view on one."""

    def __init__(self, trips: SteppedTrips) -> None:
        self.trips, self.lab = trips, trips.lab
        self.left: dict[str, dict[Place, int]] = {}

    def reader(self, alias: str) -> ClusterReader:
        """A reader of one cluster."""
        return ClusterReader(alias, self.lab.status())

    def copies_on(self, alias: str, other: str) -> int:
        """Length of the shortest copy of a shared topic on a cluster; 0 until MirrorMaker 2 has made all of them."""
        reader, copies = self.reader(alias), places(f"{other}.")
        existing = reader.partitions()
        return min(reader.ends(copies).values()) if all(topic in existing for topic, _ in copies) else 0

    def place_groups(self, alias: str = EAST, other: str = WEST) -> None:
        """Commit positions in own topics and in copies: at the begin, in the middle, and at the end as it is now."""
        read = [*places(), *places(f"{other}.")]
        ends = self.reader(alias).ends(read)
        for number, share in enumerate((0.0, 0.5, 1.0)):
            self.left[f"global-{number}"] = {place: int(ends[place] * share) for place in read}
            commit(self.lab, alias, f"global-{number}", self.left[f"global-{number}"])

    def judge(self, evidence: dict[str, Any] | None = None) -> dict[str, int]:
        """Assert that no group of the global view was placed ahead, on west; return the figures."""
        east, west = self.reader(EAST), self.reader(WEST)
        left = {
            group: {p: o for p, o in at.items() if p in COPIES_ON_EAST or p in COPIES_ON_WEST}
            for group, at in self.left.items()
        }
        placed = west.positions(self.left)
        original = {**COPIES_ON_EAST, **COPIES_ON_WEST}
        there = west.read(set(original.values()), "read_uncommitted")
        here = east.read(set(original), "read_uncommitted")
        logs = {place: (here[place], there[original[place]]) for place in original}
        findings, figures = check_placings({g: (left[g], placed[g]) for g in left}, logs, original)
        print(figures, flush=True)
        assert not findings, "\n".join(map(str, findings[:10]))
        return figures

    def states(self) -> dict[str, str]:
        """Flow -> state of its source connector."""
        found = {}
        for source, target in ((EAST, WEST), (WEST, EAST)):
            name = connector_name(source, target, "source")
            found[f"{source}->{target}"] = call_worker(self.lab, target, "GET", f"/connectors/{name}/status").json()[
                "connector"
            ]["state"]
        return found


@contextmanager
def active_pair(state: Path, folder: Path, **choices: Any) -> Iterator[Pair]:
    """An active-active lab with the workload's topics on east, and shared topics with records on both clusters."""
    with stepped_trips(
        state, folder, SEED, RATE, **{"scale": 0.03, "groups": 6, "recorded": False, **choices}
    ) as trips:
        pair = Pair(trips)
        for alias in (EAST, WEST):
            create_topics(pair.lab, alias, SHARED)
        yield pair


def passed(verdict: CheckResult) -> CheckResult:
    """Assert that the checker found nothing."""
    print(f"{dict(verdict.figures)}", flush=True)
    assert verdict.passed, "\n".join(verdict.lines(limit=5))
    return verdict


def test_planned_failover_while_west_writes(fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """West's clients write throughout: no group skips a record of theirs, and their flow to east never stops."""
    lab = Lab(fresh_lab("default", airflow=False, clusters=ACTIVE_ACTIVE))
    with active_pair(lab.root, tmp_path) as pair:
        east, west = OwnProducer(lab, EAST, places()), OwnProducer(lab, WEST, places())
        with west.writing():
            with east.writing():
                until(lambda: pair.copies_on(EAST, WEST) > 50, "copies on east", 60.0)
                time.sleep(3)
            pair.place_groups()
            verdict = passed(pair.trips.leave(Leaving(more=5)))
            assert verdict.figures["positions"] > 0
            time.sleep(2)
        assert not west.refused and west.acknowledged > 500
        assert pair.states() == {f"{EAST}->{WEST}": "STOPPED", f"{WEST}->{EAST}": "RUNNING"}
        time.sleep(3)
        figures = pair.judge()
        assert figures["exact"] == figures["positions"] == len(pair.left) * 2 * len(places())
