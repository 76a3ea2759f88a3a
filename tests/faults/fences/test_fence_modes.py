"""Each way of fencing, there and back with the flow back running: MirrorMaker 2 writes behind the fence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import ResourceType

from lab.environment import brokers
from lab.environment.state import ALIASES
from lab.rehearsal.round_trip import Leaving, Returning
from tests.faults.support.trips import stepped_trips
from tests.support.staged_lab import Acl, Stage, acl

SUPER_USERS = ["User:admin", "User:mm2", "User:orchestrator"]
EVERYONE = [acl("User:*", "ALL", "*"), acl("User:*", "ALL", "*", kind="GROUP")]


def named_clients(stage: Stage) -> None:
    """The lab's own entries: a DENY for each client."""


def everyone_by_one_entry(stage: Stage) -> None:
    """Also MirrorMaker 2 writes and reads only by an entry for everyone; it has its rights throughout."""
    stage.allow(*EVERYONE)
    for alias in ALIASES:
        stage.remove_acls(alias, [ResourceType.TOPIC, ResourceType.GROUP], but_for="User:*")


def nobody_by_an_entry(stage: Stage) -> None:
    """No topic and no group has an entry, and the brokers let everyone use what has none."""
    for alias in ALIASES:
        stage.remove_acls(alias, [ResourceType.TOPIC, ResourceType.GROUP])
    stage.describe_clusters(allow_everyone_if_no_acl_found=True)


def exempt_super_users(stage: Stage) -> None:
    """MirrorMaker 2 and the orchestrator are super users on every node, as the topology says."""
    stage.describe_clusters(super_users=SUPER_USERS)


def arranged(
    arrange: Callable[[Stage], None], fresh_lab: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> Stage:
    """Return a lab without Airflow, under identity naming, in which clients have their rights as arranged."""
    if arrange is nobody_by_an_entry:
        monkeypatch.setitem(brokers._AUTHORIZATION, "allow.everyone.if.no.acl.found", "true")
    if arrange is exempt_super_users:
        monkeypatch.setitem(brokers._AUTHORIZATION, "super.users", ";".join(["User:ANONYMOUS", *SUPER_USERS]))
    state = fresh_lab("identity", airflow=False)
    stage = Stage(state)
    arrange(stage)
    return stage


def without_denials(entries: set[Acl]) -> set[Acl]:
    """Return the entries without those that keep the flow to a cluster harmless while clients are there."""
    denied = {entry[1] for entry in entries if entry[3:] == ("User:mm2", "*", "WRITE", "DENY")}
    harmless = {("User:mm2", "*", "WRITE", "DENY"), ("User:*", "*", "ALL", "ALLOW")}
    return {entry for entry in entries if entry[1] not in denied or entry[3:] not in harmless}


@pytest.mark.parametrize("arrange", [named_clients, everyone_by_one_entry, nobody_by_an_entry, exempt_super_users])
def test_there_and_back_behind_each_kind_of_fence(
    arrange: Callable[[Stage], None], fresh_lab: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Judged by ids after each change of sides; a cluster to which clients return has its entries of before."""
    stage = arranged(arrange, fresh_lab, monkeypatch)
    before = {alias: stage.acls(alias) for alias in ALIASES}
    with stepped_trips(stage.lab.root, tmp_path, rate=500, scale=0.02, recorded=False) as trips:
        went = trips.leave(Leaving(standby=True, more=10))
        assert went.passed, "\n".join(went.lines(limit=5))
        fence = stage.acls("primary") - before["primary"]
        assert fence, "clients left a cluster that is fenced"
        denied_to_everyone = [entry for entry in fence if "DENY" in entry and entry[3] == "User:*"]
        assert bool(denied_to_everyone) == (arrange is exempt_super_users)
        came = trips.come_back(Returning(more=10, born=True), writes=True)
        assert came.passed, "\n".join(came.lines(limit=5))
        assert without_denials(stage.acls("primary")) == before["primary"]
        again = trips.leave(Leaving(more=5), writes=True)
        assert again.passed, "\n".join(again.lines(limit=5))
        opened = before["standby"] - stage.acls("standby")
        assert {entry[3] for entry in opened} <= {"User:producer"} and all("DENY" in entry for entry in opened)
