"""A lost centre of an aggregation: one plan and one approval move its readers to every region, judged by records."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lab.checker.readers import ClusterReader, Place
from lab.checker.topologies.global_view import check_placings
from lab.environment.layout.flows import AGGREGATION, THIRD
from lab.environment.state import Lab
from lab.rehearsal.run import run_dag
from tests.faults.support import always_on
from tests.faults.support.lost_scene import quicken
from tests.faults.support.scene import until
from tests.faults.support.stepping import Run, Stepping
from tests.support.rehearsals import kept_if_it_fails
from tests.support.topologies.own_clients import OwnProducer, commit, create_topics

CENTRE, REGIONS = "standby", ("primary", THIRD)
EVENTS = {"events": 2}
PLACES: list[Place] = [("events", partition) for partition in range(EVENTS["events"])]
COPIES: dict[str, dict[Place, Place]] = {
    region: {(f"{region}.{topic}", partition): (topic, partition) for topic, partition in PLACES} for region in REGIONS
}
GROUPS = ("view-0", "view-1", "view-2")
PARAMS = {"source": CENTRE, "target": REGIONS[0], "other_targets": REGIONS[1], "reason": "the centre is gone"}
FIRST = "assess_data_loss"


class Aggregation:
    """Two regions that write, and groups on their centre, which is lost.

    Attributes:
        pairs: the pairs' runs, by target, as lost_cluster has started them.
    """

    def __init__(self, state: Path, folder: Path) -> None:
        self.lab = Lab(state)
        quicken(self.lab)
        self.pairs: dict[str, Run] = {}
        self.driver = Stepping(self.lab, folder)
        self.driver.run_triggered = self._assess
        self.left: dict[str, dict[Place, int]] = {}
        self.copies: dict[Place, list[Any]] = {}

    def reader(self, alias: str) -> ClusterReader:
        """A reader of one cluster."""
        return ClusterReader(alias, self.lab.status())

    def place_groups(self) -> None:
        """Commit positions in the copies on the centre: at the begin, in the middle, and at the end."""
        centre, places = self.reader(CENTRE), [place for copies in COPIES.values() for place in copies]
        until(lambda: {topic for topic, _ in places} <= set(centre.partitions()), "copies on the centre", 60.0)
        until(lambda: min(centre.ends(places).values()) > 50, "records on the centre", 60.0)
        ends = centre.ends(places)
        for group, share in zip(GROUPS, (0.0, 0.5, 1.0), strict=True):
            self.left[group] = {place: int(ends[place] * share) for place in places}
            commit(self.lab, CENTRE, group, self.left[group])
        self.copies = centre.read(set(places), "read_uncommitted")

    def await_samples(self) -> None:
        """Wait until the recorder has stored two more samples of the flow to each region."""
        before = {region: self._samples(region) for region in REGIONS}
        until(lambda: all(self._samples(region) >= before[region] + 2 for region in REGIONS), "samples", 120.0)

    def _samples(self, region: str) -> int:
        return len(list((self.lab.archive / f"{CENTRE}-to-{region}").rglob("[0-9]*.parquet")))

    def lose_centre(self) -> None:
        """Kill the centre's broker and its worker, once the recorder has sampled its groups."""
        for kind in ("connect", "broker"):
            os.kill(self.lab.processes.pid(f"{kind}-{CENTRE}"), 9)

    def _assess(self, run: Run) -> str:
        """Go with a pair's run as far as it goes without an approval."""
        assert run.params["target"] not in self.pairs
        self.pairs[run.params["target"]] = run
        assert self.driver.forward(run, until=FIRST), run.texts
        return "running"

    def move(self) -> None:
        """Go on with the pairs' runs to their ends, after the approval of the common plan; none asks anybody."""
        for pair in self.pairs.values():
            evidence = self.driver.whole(pair, after=FIRST)
            assert evidence["outcome"] == "completed", evidence["reason_for_outcome"]
            assert not pair.questions

    def judge(self, region: str) -> dict[str, int]:
        """Assert that no group was placed ahead on a region, by records; return the figures."""
        reader, copies = self.reader(region), COPIES[region]
        placed = reader.positions(self.left)
        left = {group: {place: at[place] for place in copies} for group, at in self.left.items()}
        there = reader.read(set(copies.values()), "read_uncommitted")
        logs = {place: (self.copies[place], there[original]) for place, original in copies.items()}
        findings, figures = check_placings({g: (left[g], placed[g]) for g in left}, logs, copies)
        print(region, figures, flush=True)
        assert not findings, "\n".join(map(str, findings[:10]))
        return figures


@contextmanager
def aggregation(state: Path, folder: Path) -> Iterator[Aggregation]:
    """An aggregation whose regions have written, and whose groups have read on the centre; recorder and watcher run."""
    made = Aggregation(state, folder)
    try:
        with kept_if_it_fails(state, folder):
            for region in REGIONS:
                create_topics(made.lab, region, EVENTS)
            # Airflow runs both by itself.
            for dag_id in () if made.lab.load().airflow else (always_on.RECORDER, always_on.WATCHER):
                always_on.start(made.lab, dag_id)
            producers = [OwnProducer(made.lab, region, PLACES) for region in REGIONS]
            with producers[0].working(), producers[1].working():
                time.sleep(8)
            assert not any(producer.refused for producer in producers)
            made.place_groups()
            made.await_samples()
            yield made
    finally:
        made.driver.close()


def assert_moved(site: Aggregation, evidence: dict[str, Any], of_pairs: dict[str, dict[str, Any]]) -> None:
    """Each group has its positions in each region, by one approval; the routing record leads to the first region.

    Args:
        evidence: of lost_cluster.
        of_pairs: region -> the evidence of the pair's run.
    """
    assert evidence["outcome"] == "completed", evidence["reason_for_outcome"]
    # A gate that is killed after its answer takes the same answer again.
    (digest,) = {approval["digest"] for approval in evidence["approvals"]}
    assert list(of_pairs) == list(REGIONS)
    for region, mine in of_pairs.items():
        assert [(one["by"], one["digest"]) for one in mine["approvals"]] == [("approver", digest)]
        figures = site.judge(region)
        assert figures["positions"] == len(GROUPS) * len(PLACES)
    assert json.loads(site.lab.routing.read_text())["cluster"] == REGIONS[0]


def of_stepped(site: Aggregation) -> dict[str, dict[str, Any]]:
    """Return the evidence of the pairs' runs that the driver has gone through."""
    return {region: site.driver.evidence(pair) for region, pair in site.pairs.items()}


def test_readers_of_a_lost_centre_go_to_all_regions(fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """Each group gets its positions in each region; a second person answers once."""
    with aggregation(fresh_lab("default", airflow=False, clusters=AGGREGATION), tmp_path) as site:
        site.lose_centre()
        run = Run(PARAMS, dag_id="lost_cluster")
        assert site.driver.forward(run, until="approve_lost_cluster"), run.texts
        print(run.questions["approve_lost_cluster"], flush=True)
        site.move()
        assert site.driver.step(run, "follow_pairs") == "done", run.texts
        site.driver.step(run, "close_procedure")
        assert_moved(site, site.driver.evidence(run), of_stepped(site))


def test_airflow_starts_and_follows_the_pairs(fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """One run is triggered and answered once; Airflow starts each pair's run, and wakes the run that follows them."""
    with aggregation(fresh_lab("default", airflow=True, clusters=AGGREGATION), tmp_path) as site:
        site.lose_centre()
        assert run_dag(site.lab, "lost_cluster", PARAMS, approve_as="approver", timeout=900) == 0
        documents = [json.loads(path.read_text()) for path in site.lab.evidence.glob("*/evidence.json")]
        (common,) = [one for one in documents if one["dag_id"] == "lost_cluster"]
        moved = {one["target"]: one for one in documents if one["dag_id"] == "unplanned_failover"}
        assert_moved(site, common, {region: moved[region] for region in REGIONS})


def test_the_common_plan_is_killed_after_every_journal_write(fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """Each of its steps killed after its n-th write and tried again: each pair is started once, and the same end."""
    with aggregation(fresh_lab("default", airflow=False, clusters=AGGREGATION), tmp_path) as site:
        site.lose_centre()
        run, points = Run(PARAMS, dag_id="lost_cluster"), list[str]()
        for step in [*run.steps, "close_procedure"]:
            if step == "follow_pairs":
                site.move()
            points += [f"{step} {point}" for point in site.driver.killed_everywhere(run, step)]
            assert run.ended[step] == "done", run.texts
        print(f"{len(points)} points: {points}", flush=True)
        assert len(points) > 12
        assert_moved(site, site.driver.evidence(run), of_stepped(site))
