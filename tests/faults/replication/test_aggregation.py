"""An aggregation: the clients of one region move to the hub and back, while another region goes on, judged by records.

The hub has readers of its own, and copies of both regions' records under default naming.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lab.environment.layout.flows import AGGREGATION, THIRD
from lab.environment.state import Lab
from lab.rehearsal.round_trip import Leaving
from lab.rehearsal.unplanned import Accident
from tests.faults.replication.shared_topics import KILLED, SHARED, Positions, SharedTopics, passed, places, returned
from tests.faults.support.scene import until
from tests.faults.support.trips import SteppedTrips, stepped_trips
from tests.support.rehearsals import SEED
from tests.support.topologies.own_clients import OwnConsumer, OwnProducer

REGION, HUB, OTHER = "primary", "standby", THIRD
FLOWS = (REGION, HUB), (HUB, REGION), (OTHER, HUB), (HUB, OTHER)
CONFIRM_SECONDS = 6
#: Groups of the region's clients, with the share of a log that they have read when they leave.
GROUPS = {"region-0": 0.0, "region-1": 0.5, "region-2": 1.0}


class Aggregation:
    """A lab of two regions and a hub.

    Attributes:
        left: the region's groups' positions when they left.
        other: the producer of the other region; `analysts`: readers on the hub of both regions' copies.
    """

    def __init__(self, trips: SteppedTrips) -> None:
        self.trips, self.lab = trips, trips.lab
        self.topics = SharedTopics(trips.lab, (REGION, OTHER))
        self.other = OwnProducer(self.lab, OTHER, places(), "other")
        copies = [f"{alias}.{topic}" for alias in (REGION, OTHER) for topic in SHARED]
        self.analysts = OwnConsumer(self.lab, HUB, "analysts", copies)
        self.left: Positions = {}

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """The other region writes and the hub's own group reads; both go on until the end of the block."""
        with self.other.working():
            with OwnProducer(self.lab, REGION, places(), "region").working() as region:
                copied = self.topics.copied
                until(lambda: min(copied(HUB, REGION), copied(HUB, OTHER)) > 50, "copies", 120.0)
                time.sleep(3)
            assert not region.refused
            with self.analysts.working():
                until(lambda: self.analysts.read > 0, "the hub's own readers", 60.0)
                self.left = self.topics.place(REGION, GROUPS, places())
                yield
        assert not self.other.refused and not self.analysts.refused
        until(self.topics.all_copied(HUB, OTHER), "the other region's last records", 60.0)

    def judge_the_other_region(self) -> None:
        """Assert that the hub has each record of the other region once, and that its flow runs."""
        there = self.topics.reader(OTHER).read(set(places()), "read_uncommitted")
        here = self.topics.reader(HUB).read(set(places(OTHER)), "read_uncommitted")
        for topic, partition in places():
            written = [record.digest for record in there[topic, partition]]
            assert [record.digest for record in here[f"{OTHER}.{topic}", partition]] == written
        assert sum(map(len, there.values())) == self.other.acknowledged
        assert self.topics.states((OTHER, HUB)) == {f"{OTHER}->{HUB}": "RUNNING"}

    def return_to_region(self, **suffers: dict[str, Any]) -> dict[str, int]:
        """Let moved clients work on the hub, return them, and judge where their groups go on."""
        with OwnProducer(self.lab, HUB, places(), "moved").working() as moved:
            time.sleep(8)
        assert not moved.refused
        self.topics.read_on(HUB, {"region-0": 0.0, "region-1": 0.5, "region-2": 1.0})
        left = self.topics.reader(HUB).positions(GROUPS)
        read, written = self.analysts.read, self.other.acknowledged
        returned(self.trips, HUB, REGION, **suffers)
        time.sleep(3)
        assert self.analysts.read > read and self.other.acknowledged > written
        assert self.topics.reader(REGION).positions(["analysts"]) == {"analysts": {}}
        return self.topics.judge(HUB, REGION, left)


@contextmanager
def aggregation(state: Path, folder: Path, **choices: Any) -> Iterator[Aggregation]:
    """A lab with the workload's topics on the region, and shared topics on both regions."""
    options = {"scale": 0.03, "groups": 6, "recorded": False, **choices}
    with stepped_trips(state, folder, SEED, 500, **options) as trips:
        yield Aggregation(trips)


def test_a_region_moves_to_the_hub_and_back(fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """Planned both ways; no record of either region is missing, and the hub's own readers are not moved."""
    lab = Lab(fresh_lab("default", airflow=False, clusters=AGGREGATION))
    with aggregation(lab.root, tmp_path) as site:
        with site.at_work():
            passed(site.trips.leave(Leaving(more=5)))
            there = site.topics.judge(REGION, HUB, site.left)
            back = site.return_to_region()
        assert there["exact"] == there["positions"] == len(GROUPS) * len(places())
        assert back["exact"] == back["positions"] > there["positions"]
        site.judge_the_other_region()
        assert site.topics.states(*FLOWS[:2]) == {f"{REGION}->{HUB}": "RUNNING", f"{HUB}->{REGION}": "STOPPED"}


def test_a_region_is_lost_and_comes_back(fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """The other region and the hub's readers go on, and nobody skips a record; steps of the way back are killed."""
    lab = Lab(fresh_lab("default", airflow=False, clusters=AGGREGATION))
    with aggregation(lab.root, tmp_path, recorded=True) as site:
        with site.at_work():
            accident = Leaving(Accident(after=2.0), params={"confirm_seconds": CONFIRM_SECONDS})
            passed(site.trips.leave(accident))
            site.topics.judge(REGION, HUB, site.left)
            site.return_to_region(**KILLED)
        site.judge_the_other_region()
        assert site.topics.states(*FLOWS[:2]) == {f"{REGION}->{HUB}": "RUNNING", f"{HUB}->{REGION}": "STOPPED"}
