"""An active-active pair: both flows run, both clusters take writes, and every placing is judged by records."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from confluent_kafka.admin import AclBinding, AclBindingFilter, AdminClient

from lab.checker import CheckResult
from lab.checker.readers import ClusterReader, Place
from lab.checker.topologies.global_view import check_placings
from lab.environment.connect import call_worker, connector_name
from lab.environment.layout.flows import ACTIVE_ACTIVE
from lab.environment.state import Lab
from lab.rehearsal.round_trip import Leaving
from lab.rehearsal.unplanned import Accident
from tests.faults.support import always_on
from tests.faults.support.scene import until
from tests.faults.support.stepping import Run
from tests.faults.support.trips import SteppedTrips, stepped_trips
from tests.support.lab_clients import acl_filter, without_marker
from tests.support.rehearsals import SEED
from tests.support.topologies.own_clients import OwnProducer, commit, create_topics

EAST, WEST = "primary", "standby"
CONFIRM_SECONDS = 6
_FIELDS = ("restype", "name", "resource_pattern_type", "principal", "host", "operation", "permission_type")
#: Groups that do not read the copies of west's records, with their policies.
LOCAL_VIEWS = {"local-all": "earliest", "local-new": "boundary"}
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
        self.admins = {alias: AdminClient(self.lab.client_properties(alias, "admin")) for alias in (EAST, WEST)}
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

        for group in LOCAL_VIEWS:
            self.left[group] = {place: int(ends[place] * 0.5) for place in places()}
            commit(self.lab, alias, group, self.left[group])

    @property
    def positions_to_judge(self) -> int:
        """Number of positions that the groups had on east."""
        return sum(map(len, self.left.values()))

    def judge_local_views(self, before: dict[Place, int]) -> None:
        """Assert that one begins at the start of west's own topics, the other where moved clients write.

        Args:
            before: ends of west's topics before the failover.
        """
        placed, ends = self.reader(WEST).positions(LOCAL_VIEWS), self.reader(WEST).ends(places())
        assert [placed["local-all"][place] for place in places()] == [0] * len(places())
        assert all(before[place] <= placed["local-new"][place] <= ends[place] for place in places())

    def entries(self) -> dict[str, set[AclBinding]]:
        """ACL entries of both clusters."""
        return {
            alias: set(without_marker(admin.describe_acls(acl_filter()).result(30)))
            for alias, admin in self.admins.items()
        }

    def undo_by_hand(self, before: dict[str, set[AclBinding]]) -> None:
        """Give both clusters their earlier ACL entries, and resume the flow from east."""
        for alias, now in self.entries().items():
            admin, changes = self.admins[alias], list[Any]()
            if gone := now - before[alias]:
                filters = [AclBindingFilter(*(getattr(entry, field) for field in _FIELDS)) for entry in gone]
                changes += admin.delete_acls(filters).values()
            if lacking := before[alias] - now:
                changes += admin.create_acls(list(lacking)).values()
            for change in changes:
                change.result(30)
        for kind in ("source", "checkpoint"):
            call_worker(self.lab, WEST, "PUT", f"/connectors/{connector_name(EAST, WEST, kind)}/resume")

    def judge(self) -> dict[str, int]:
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
    lab, policies = Lab(state), [{"pattern": group, "policy": policy} for group, policy in LOCAL_VIEWS.items()]
    topology = yaml.safe_load(lab.topology.read_text())
    topology["groups"] = [*policies, *topology.get("groups", [])]
    lab.topology.write_text(yaml.safe_dump(topology, sort_keys=False))
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


def shared_and_placed(pair: Pair, east: OwnProducer) -> None:
    """Both clusters have records of the shared topics, and copies; the groups have their positions."""
    with east.writing():
        until(lambda: min(pair.copies_on(EAST, WEST), pair.copies_on(WEST, EAST)) > 50, "copies", 120.0)
        time.sleep(3)
    pair.place_groups()


def test_planned_failover_while_west_writes(fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """No group skips a record of west's clients; their flow to east never stops, and no failback stops them."""
    lab = Lab(fresh_lab("default", airflow=False, clusters=ACTIVE_ACTIVE))
    with active_pair(lab.root, tmp_path) as pair:
        east, west = OwnProducer(lab, EAST, places()), OwnProducer(lab, WEST, places())
        with west.writing():
            shared_and_placed(pair, east)
            before, entries = pair.reader(WEST).ends(places()), pair.entries()
            verdict = passed(pair.trips.leave(Leaving(more=5)))
            assert verdict.figures["positions"] > 0
            pair.judge_local_views(before)
            assert_failback_refused(pair)
        assert not west.refused and west.acknowledged > 500
        time.sleep(3)
        figures = pair.judge()
        assert figures["exact"] == figures["positions"] == pair.positions_to_judge
        return_by_hand(pair, entries)


def return_by_hand(pair: Pair, before: dict[str, set[AclBinding]]) -> None:
    """As the page says: the watcher undoes it once; in the end both flows run, and clients write on both clusters."""
    pair.undo_by_hand(before)
    until(lambda: "Done again, once" in always_on.said(pair.lab, always_on.WATCHER), "the watcher to act", 60.0)
    pair.undo_by_hand(before)
    until(lambda: "contested" in always_on.said(pair.lab, always_on.WATCHER), "the watcher to give up", 60.0)
    pair.undo_by_hand(before)
    copied, east, west = (
        pair.copies_on(WEST, EAST),
        OwnProducer(pair.lab, EAST, places()),
        OwnProducer(pair.lab, WEST, places()),
    )
    back = pair.copies_on(EAST, WEST)
    with east.writing(), west.writing():
        time.sleep(15)
        until(lambda: pair.copies_on(WEST, EAST) > copied and pair.copies_on(EAST, WEST) > back, "both flows", 60.0)
    assert not east.refused and not west.refused
    assert pair.states() == {f"{EAST}->{WEST}": "RUNNING", f"{WEST}->{EAST}": "RUNNING"}
    assert pair.entries() == before


def assert_failback_refused(pair: Pair) -> None:
    """It ends before anything is touched: entries and flows are as they were."""
    before = pair.entries(), pair.states()
    assert before[1] == {f"{EAST}->{WEST}": "STOPPED", f"{WEST}->{EAST}": "RUNNING"}
    driver = pair.trips.driver
    run = Run({"source": WEST, "target": EAST, "reason": "back"}, dag_id="failback")
    evidence = driver.whole(run)
    assert evidence["outcome"] == "returned", evidence["outcome"]
    assert "Both flows between" in evidence["reason_for_outcome"], evidence["reason_for_outcome"]
    assert (pair.entries(), pair.states()) == before


def test_east_is_lost_while_west_writes(fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """Nothing says how far west's records were copied: groups go by their policies there, and the plan says so."""
    lab = Lab(fresh_lab("default", airflow=False, clusters=ACTIVE_ACTIVE))
    with active_pair(lab.root, tmp_path, recorded=True) as pair:
        east, west = OwnProducer(lab, EAST, places()), OwnProducer(lab, WEST, places())
        with west.writing():
            shared_and_placed(pair, east)
            before = pair.reader(WEST).ends(places())
            passed(pair.trips.leave(Leaving(Accident(after=2.0), params={"confirm_seconds": CONFIRM_SECONDS})))
            pair.judge_local_views(before)
        assert not west.refused and west.acknowledged > 500
        placed = pair.reader(WEST).positions(pair.left)
        for group in (group for group in pair.left if group.startswith("global")):
            assert {placed[group][place] for place in places()} == {0}, "policy earliest"
        plan = pair.trips.evidence()[1]["plan"]
        print(plan["flows"], flush=True)
        assert {group for group in pair.left if group.startswith("global")} <= set(plan["flows"]["by_policy"])
        pair.judge()
