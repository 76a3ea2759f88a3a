"""A real planned failover, checked by code that shares nothing with the product, its commit undone, and both clusters
compared.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient

from lab.checker.readers import ClusterReader, Place
from lab.environment.state import Lab
from lab.rehearsal.planned import SOURCE, TARGET, Rehearsal, rehearsal_under_load
from lab.rehearsal.run import run_dag
from lab.workload.group_positions import ADMIN, Committer, GroupPlan
from tests.support.rehearsals import SEED, concluded_without_findings

RATE = 2_000
CONF = {"source": SOURCE, "target": TARGET, "reason": "they shall stand where they stood"}
Positions = dict[str, dict[Place, int]]


class GroupsOnTarget:
    """Groups of which two held positions on the target before the failover.

    Attributes:
        whole: a group that held all of its partitions there.
        partly: one that held a single partition.
        others: groups that held nothing.
        before: what the first two held.
    """

    def __init__(self, rehearsal: Rehearsal) -> None:
        self._rehearsal = rehearsal
        self._reader = ClusterReader(TARGET, rehearsal.status)
        truth = rehearsal.truth.positions
        prefix = "" if rehearsal.policy == "identity" else f"{SOURCE}."
        places = {
            group: [
                (prefix + topic, partition)
                for topic in sorted(truth[group])
                for partition in sorted(truth[group][topic])
            ]
            for group in rehearsal.idle_groups
        }
        self.whole, self.partly, *self.others = sorted(places, key=lambda group: -len(places[group]))
        assert len(places[self.partly]) > 1, "it cannot hold a part of its positions"
        self.before: Positions = {
            self.whole: dict.fromkeys(places[self.whole], 0),
            self.partly: {places[self.partly][0]: 0},
        }

    def positions(self) -> Positions:
        """What all of these groups hold on the target now."""
        return self._reader.positions([self.whole, self.partly, *self.others])

    def commit(self, wanted: Positions) -> None:
        """Somebody else commits on the target, for groups at rest."""
        clients = self._rehearsal.status["clusters"][TARGET]["client_properties"]
        Committer(AdminClient(dict(clients["admin"])), clients["consumer"]).commit(
            GroupPlan(group, ADMIN, positions) for group, positions in wanted.items()
        )


@pytest.fixture(scope="module")
def rehearsal(planned_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    """Topics, records, groups, clients, and load that ignores the drain hook."""
    folder = tmp_path_factory.mktemp("planned")
    with rehearsal_under_load(planned_lab.root, folder, SEED, RATE, scale=0.2, groups=12) as made:
        yield made


def test_nothing_is_lost_nobody_moved_and_a_commit_is_undone(rehearsal: Rehearsal) -> None:
    """0 skipped, all exact, 0 missing; undone, groups have back what they held; a second run finds nothing to do."""
    state, groups = rehearsal.lab.root, GroupsOnTarget(rehearsal)
    groups.commit(groups.before)
    concluded_without_findings(rehearsal)
    moved = groups.positions()
    assert moved[groups.whole].keys() >= groups.before[groups.whole].keys()
    assert moved[groups.partly] != groups.before[groups.partly] and all(moved[group] for group in groups.others)
    later = next(group for group in groups.others if any(moved[group].values()))
    gone = [group for group in groups.others if group != later]
    assert gone, "no group is left that held nothing"
    since = {next(place for place, offset in sorted(moved[later].items()) if offset): 0}
    groups.commit({later: since})

    assert run_dag(Lab(state), "restore_group_offsets", CONF, approve_as="approver", timeout=300) == 0
    now = groups.positions()
    for group, before in groups.before.items():
        assert now[group] == before, "positions that the failover added are deleted"
    assert now[later] == moved[later] | since, "somebody committed since: the group is not deleted"
    assert [group for group in gone if now.get(group)] == []

    assert run_dag(Lab(state), "restore_group_offsets", CONF, timeout=300) == 0
    assert groups.positions() == now


def test_both_clusters_hold_the_same_afterwards(rehearsal: Rehearsal) -> None:
    """Record by record, as they did at the cut-off; what clients write on the target since is no difference."""
    assert run_dag(rehearsal.lab, "reconcile_clusters", CONF, timeout=300) == 0
    (folder,) = rehearsal.lab.evidence.glob("reconcile_clusters-*")
    evidence = json.loads((folder / "evidence.json").read_text(encoding="utf-8"))
    figures = {step["id"]: step["figures"] for step in evidence["steps"]}
    compared = figures["compare_records"]
    assert compared["equal"] > rehearsal.rate and compared["differing"] == 0, compared
    assert ("limited_by" in figures["set_bounds"]) == (rehearsal.policy == "identity")
