"""An active-active pair: both flows run, both clusters take writes, and every placing is judged by records."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from confluent_kafka.admin import AclBinding, AdminClient

from lab.checker.readers import Place
from lab.environment.layout.flows import ACTIVE_ACTIVE
from lab.environment.state import Lab
from lab.rehearsal.round_trip import Leaving
from lab.rehearsal.unplanned import Accident
from tests.faults.replication.shared_topics import KILLED, SHARED, Positions, SharedTopics, passed, places, returned
from tests.faults.support import always_on
from tests.faults.support.scene import until
from tests.faults.support.trips import SteppedTrips, stepped_trips
from tests.support.lab_clients import acl_filter, without_marker
from tests.support.rehearsals import SEED
from tests.support.topologies.own_clients import OwnConsumer, OwnProducer

EAST, WEST = "primary", "standby"
CONFIRM_SECONDS = 6
#: Groups that do not read the copies of west's records, with their policies.
LOCAL_VIEWS = {"local-all": "earliest", "local-new": "boundary"}
#: Groups that read both clusters' records, with the share of a log that they have read when they leave.
GLOBAL_VIEWS = {"global-0": 0.0, "global-1": 0.5, "global-2": 1.0}
RESIDENT = "resident"
BOTH_RUN = {f"{EAST}->{WEST}": "RUNNING", f"{WEST}->{EAST}": "RUNNING"}


class Pair:
    """An active-active lab whose shared topics get records on both clusters.

    Attributes:
        east, west: producers of the clients of each cluster; `resident`: a group that belongs on west.
        left: positions that east's groups of a global view had when they left.
    """

    def __init__(self, trips: SteppedTrips) -> None:
        self.trips, self.lab = trips, trips.lab
        self.topics = SharedTopics(trips.lab, (EAST, WEST))
        self.admins = {alias: AdminClient(self.lab.client_properties(alias, "admin")) for alias in (EAST, WEST)}
        self.east = OwnProducer(self.lab, EAST, places(), "east")
        self.west = OwnProducer(self.lab, WEST, places(), "west")
        self.resident = OwnConsumer(self.lab, WEST, RESIDENT, SHARED)
        self.left: Positions = {}

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Both clusters have records and copies, and groups their positions; west's own clients go on for the block."""
        with self.west.working(), self.resident.working():
            with self.east.working():
                copied = self.topics.copied
                until(lambda: min(copied(EAST, WEST), copied(WEST, EAST)) > 50, "copies", 120.0)
                time.sleep(3)
            assert not self.east.refused
            self.left = self.topics.place(EAST, GLOBAL_VIEWS, [*places(), *places(WEST)])
            self.topics.place(EAST, dict.fromkeys(LOCAL_VIEWS, 0.5), places())
            yield
        assert not self.west.refused and not self.resident.refused

    def judge_local_views(self, before: dict[Place, int]) -> None:
        """Assert that one begins at the start of west's own topics, the other where moved clients write.

        Args:
            before: ends of west's topics before the failover.
        """
        placed, ends = self.topics.reader(WEST).positions(LOCAL_VIEWS), self.topics.ends(WEST)
        assert [placed["local-all"][place] for place in places()] == [0] * len(places())
        assert all(before[place] <= placed["local-new"][place] <= ends[place] for place in places())

    def entries(self) -> dict[str, set[AclBinding]]:
        """ACL entries of both clusters."""
        return {
            alias: set(without_marker(admin.describe_acls(acl_filter()).result(30)))
            for alias, admin in self.admins.items()
        }

    def come_back(self, **suffers: dict[str, Any]) -> dict[str, int]:
        """Let moved clients work on west, return them while west's own go on, and judge where their groups go on."""
        moved = OwnProducer(self.lab, WEST, places(), "moved")
        with moved.working():
            time.sleep(8)
        assert not moved.refused
        self.topics.read_on(WEST, {**GLOBAL_VIEWS, "local-all": 0.5})
        groups = [*GLOBAL_VIEWS, *LOCAL_VIEWS]
        left, before = self.topics.reader(WEST).positions(groups), self.entries()
        written, read = self.west.acknowledged, self.resident.read
        returned(self.trips, WEST, EAST, **suffers)
        time.sleep(3)
        assert self.west.acknowledged > written and self.resident.read > read
        assert self.topics.states((EAST, WEST), (WEST, EAST)) == BOTH_RUN
        assert self.topics.reader(EAST).positions([RESIDENT]) == {RESIDENT: {}}
        self._judge_fence(before[WEST], groups)
        until(self.topics.all_copied(EAST, WEST), "west's records", 60.0)
        return self.topics.judge(WEST, EAST, left)

    def _judge_fence(self, before: set[AclBinding], groups: list[str]) -> None:
        """Assert that west denies reads of the groups that returned, and nothing to its own clients."""
        after = self.entries()[WEST]
        fence = {(entry.restype.name, entry.name) for entry in after - before}
        assert {kind for kind, _ in fence} == {"GROUP"} and set(groups) <= {name for _, name in fence}
        assert RESIDENT not in {name for _, name in fence}
        said = always_on.said(self.lab, always_on.WATCHER)
        assert "Done again" not in said and "contested" not in said

    def judge_both_flows(self) -> None:
        """Assert that both clusters' clients write again, that both flows copy, and that no record is missing."""
        east = OwnProducer(self.lab, EAST, places(), "returned")
        with east.working():
            time.sleep(5)
        assert not east.refused
        for here, there in ((EAST, WEST), (WEST, EAST)):
            until(self.topics.all_copied(there, here), f"copies on {there}", 60.0)
            written = self.topics.reader(here).read(set(places()), "read_uncommitted")
            copied = self.topics.reader(there).read(set(places(here)), "read_uncommitted")
            for topic, partition in places():
                missing = {record.digest for record in written[topic, partition]}.difference(
                    record.digest for record in copied[f"{here}.{topic}", partition]
                )
                assert not missing, f"{topic}-{partition} of {here}: {len(missing)} records are not on {there}"


@contextmanager
def active_pair(state: Path, folder: Path, **choices: Any) -> Iterator[Pair]:
    """An active-active lab with the workload's topics on east, and shared topics with records on both clusters."""
    lab, policies = Lab(state), [{"pattern": group, "policy": policy} for group, policy in LOCAL_VIEWS.items()]
    topology = yaml.safe_load(lab.topology.read_text())
    topology["groups"] = [*policies, *topology.get("groups", [])]
    lab.topology.write_text(yaml.safe_dump(topology, sort_keys=False))
    with stepped_trips(state, folder, SEED, 500, **{"scale": 0.03, "groups": 6, "recorded": False, **choices}) as trips:
        yield Pair(trips)


def test_planned_failover_and_failback_while_west_works(fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """No group skips a record, there or back; west's own clients and their flow to east never stop."""
    lab = Lab(fresh_lab("default", airflow=False, clusters=ACTIVE_ACTIVE))
    with active_pair(lab.root, tmp_path) as pair:
        with pair.at_work():
            before, entries = pair.topics.ends(WEST), pair.entries()
            assert passed(pair.trips.leave(Leaving(more=5))).figures["positions"] > 0
            pair.judge_local_views(before)
            time.sleep(3)
            there = pair.topics.judge(EAST, WEST, pair.left)
            back = pair.come_back()
        assert there["exact"] == there["positions"] == sum(map(len, pair.left.values()))
        assert back["exact"] == back["positions"] > there["positions"]
        assert pair.entries()[EAST] == entries[EAST]
        pair.judge_both_flows()


def test_east_is_lost_while_west_works_and_comes_back(fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """Nothing says how far west's records were copied: groups go by their policies there, and the plan says so.

    On the way back stranded records are in east's own topics, where groups go on before them. Steps are killed.
    """
    lab = Lab(fresh_lab("default", airflow=False, clusters=ACTIVE_ACTIVE))
    with active_pair(lab.root, tmp_path, recorded=True) as pair:
        with pair.at_work():
            before = pair.topics.ends(WEST)
            accident = Leaving(Accident(after=2.0), params={"confirm_seconds": CONFIRM_SECONDS})
            passed(pair.trips.leave(accident))
            pair.judge_local_views(before)
            placed = pair.topics.reader(WEST).positions(GLOBAL_VIEWS)
            for group in GLOBAL_VIEWS:
                assert {placed[group][place] for place in places()} == {0}, "policy earliest"
            flows = pair.trips.evidence()[1]["plan"]["flows"]
            print(flows, flush=True)
            assert set(GLOBAL_VIEWS) <= set(flows["by_policy"])
            pair.topics.judge(EAST, WEST, pair.left)
            pair.come_back(**KILLED)
        pair.judge_both_flows()
