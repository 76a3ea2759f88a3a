"""A commit that is undone on real brokers: read by code that shares nothing with the product."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient

from lab.judge.readers import ClusterReader
from lab.procedure_run import run
from lab.rehearsal import Rehearsal
from lab.workload.positions import ADMIN, Committer, Plan
from tests.rehearsed import SEED

SOURCE, TARGET = "primary", "standby"
CONF = {"source": SOURCE, "target": TARGET, "reason": "they shall stand where they stood"}


def test_groups_hold_again_what_they_held(fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """Those that held something have it back, those that held nothing are gone, and what somebody committed since
    stays; a second run finds nothing to do, and asks nobody.
    """
    state = fresh_lab("identity")
    rehearsal = Rehearsal(state, tmp_path, SEED, scale=0.02, groups=8)
    try:
        rehearsal.seed_topics()
        rehearsal.start_clients()
        reader, groups = ClusterReader(TARGET, rehearsal.status), rehearsal.idle_groups
        places = {
            group: [
                (topic, partition)
                for topic, held in sorted(rehearsal.truth.positions[group].items())
                for partition in sorted(held)
            ]
            for group in groups
        }
        whole, partly, *others = sorted(groups, key=lambda group: -len(places[group]))
        assert len(places[partly]) > 1, "it cannot hold a part of its positions"
        before = {whole: dict.fromkeys(places[whole], 0), partly: {places[partly][0]: 0}}
        commit(rehearsal, before)
        assert rehearsal.run("approver", "positions are committed") == 0
    finally:
        rehearsal.stop()
    moved = reader.positions(groups)
    assert (
        moved[whole].keys() >= before[whole].keys()
        and moved[partly] != before[partly]
        and all(moved[group] for group in others)
    )
    later = others.pop(next(number for number, group in enumerate(others) if any(moved[group].values())))
    assert others, "no group is left that held nothing"
    since = {later: {next(place for place, offset in sorted(moved[later].items()) if offset): 0}}
    commit(rehearsal, since)

    assert run(state, "restore_group_offsets", CONF, approve_as="approver", timeout=300) == 0
    now = reader.positions(groups)
    assert now[whole] == before[whole]
    assert now[partly] == moved[partly] | before[partly], "single positions cannot be taken away"
    assert now[later] == moved[later] | since[later], "somebody committed since: the group is not deleted"
    assert [group for group in others if now.get(group)] == []

    assert run(state, "restore_group_offsets", CONF, timeout=300) == 0
    assert reader.positions(groups) == now


def commit(rehearsal: Rehearsal, wanted: dict[str, dict[Any, int]]) -> None:
    """Somebody else commits on the target, for groups at rest."""
    clients = rehearsal.status["clusters"][TARGET]["client_properties"]
    Committer(AdminClient(dict(clients["admin"])), clients["consumer"]).commit(
        Plan(group, ADMIN, positions) for group, positions in wanted.items()
    )
