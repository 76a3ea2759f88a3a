"""Topics of one name that clients of several clusters write, and where groups go on that read them, by records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaException

from lab.checker import CheckResult
from lab.checker.readers import ClusterReader, Place
from lab.checker.topologies.global_view import check_placings
from lab.environment.connect import call_worker, connector_name
from lab.environment.state import Lab
from tests.faults.support.stepping import Run
from tests.faults.support.trips import SteppedTrips
from tests.support.topologies.own_clients import commit, create_topics

SHARED = {"both-1": 2, "both-2": 1}
Positions = dict[str, dict[Place, int]]
#: Steps of a failback that are killed when they have acted, before they write what they did.
KILLED: dict[str, dict[str, Any]] = {
    step: {"kill_unwritten": "outcome"}
    for step in (
        "fence_returned_cluster",
        "fence_producers",
        "drain_consumers",
        "stop_mirror_maker",
        "commit_groups",
        "open_target",
        "start_reverse_replication",
    )
}


def places(alias: str = "") -> list[Place]:
    """Partitions of the shared topics, or of the copies of another cluster's."""
    prefix = f"{alias}." if alias else ""
    return [(f"{prefix}{topic}", partition) for topic, count in SHARED.items() for partition in range(count)]


def between(here: str, there: str) -> dict[Place, Place]:
    """Where a group goes on that moves: partition that it reads on one cluster -> partition on the other one."""
    copied = dict(zip(places(), places(here), strict=True))
    return copied | dict(zip(places(there), places(), strict=True))


def passed(verdict: CheckResult) -> CheckResult:
    """Assert that the checker found nothing."""
    print(f"{dict(verdict.figures)}", flush=True)
    assert verdict.passed, "\n".join(verdict.lines(limit=5))
    return verdict


def returned(trips: SteppedTrips, source: str, target: str, **how: dict[str, Any]) -> Run:
    """Run a failback that completes; `how` names what steps suffer, as of `Stepping.whole`."""
    run = trips.procedure("failback", source=source, target=target)
    evidence = trips.driver.whole(run, **how)
    assert evidence["outcome"] == "completed", evidence["reason_for_outcome"]
    assert run.killed == [step for step in run.steps if step in how]
    return run


class SharedTopics:
    """The shared topics of a lab's clusters."""

    def __init__(self, lab: Lab, aliases: Iterable[str]) -> None:
        self.lab = lab
        for alias in aliases:
            create_topics(lab, alias, SHARED)

    def reader(self, alias: str) -> ClusterReader:
        """A reader of one cluster."""
        return ClusterReader(alias, self.lab.status())

    def copied(self, alias: str, other: str) -> int:
        """Length of the shortest copy of another cluster's topics; 0 until all of them are made and have leaders."""
        reader, copies = self.reader(alias), places(other)
        existing = reader.partitions()
        try:
            return min(reader.ends(copies).values()) if all(topic in existing for topic, _ in copies) else 0
        except KafkaException:
            return 0

    def ends(self, alias: str, other: str = "") -> dict[Place, int]:
        """Log ends of a cluster's own topics, or of its copies of another cluster's."""
        return self.reader(alias).ends(places(other))

    def all_copied(self, alias: str, other: str) -> Callable[[], bool]:
        """Whether a cluster has copies of all that another one has now."""
        ends = self.ends(other)

        def is_copied() -> bool:
            if not self.copied(alias, other):
                return False
            copies = self.ends(alias, other)
            return all(copies[f"{other}.{topic}", partition] >= end for (topic, partition), end in ends.items())

        return is_copied

    def place(self, alias: str, shares: Mapping[str, float], read: Iterable[Place]) -> Positions:
        """Commit groups' positions: the begin, the end as it is now, or the middle, by a share of the log's length."""
        ends = self.reader(alias).ends(list(read))
        left = {group: {place: int(end * share) for place, end in ends.items()} for group, share in shares.items()}
        for group, at in left.items():
            commit(self.lab, alias, group, at)
        return left

    def read_on(self, alias: str, shares: Mapping[str, float]) -> None:
        """Let groups read on: a share of what they have not read yet."""
        reader = self.reader(alias)
        placed = reader.positions(shares)
        ends = reader.ends({place for at in placed.values() for place in at})
        for group, at in placed.items():
            commit(self.lab, alias, group, {p: o + int((ends[p] - o) * shares[group]) for p, o in at.items()})

    def judge(self, here: str, there: str, left: Positions) -> dict[str, int]:
        """Assert that no group skips a record where it goes on; return the figures.

        Args:
            left: the groups' positions on `here` when they moved to `there`.
        """
        known = between(here, there)
        left = {group: {p: at for p, at in positions.items() if p in known} for group, positions in left.items()}
        goes_on = {place: known[place] for at in left.values() for place in at}
        placed = self.reader(there).positions(left)
        read = self.reader(here).read(set(goes_on), "read_uncommitted")
        new = self.reader(there).read(set(goes_on.values()), "read_uncommitted")
        logs = {place: (read[place], new[other]) for place, other in goes_on.items()}
        findings, figures = check_placings({g: (left[g], placed.get(g, {})) for g in left}, logs, goes_on)
        print(here, there, figures, flush=True)
        assert not findings, "\n".join(map(str, findings[:10]))
        return figures

    def states(self, *flows: tuple[str, str]) -> dict[str, str]:
        """Flow -> state of its source connector."""
        answers: dict[str, Any] = {
            f"{source}->{target}": call_worker(
                self.lab, target, "GET", f"/connectors/{connector_name(source, target, 'source')}/status"
            ).json()
            for source, target in flows
        }
        return {flow: answer["connector"]["state"] for flow, answer in answers.items()}
