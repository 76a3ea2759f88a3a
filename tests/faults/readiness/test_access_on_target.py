"""Applications' own logins are tried on the target before the fence, and both clusters are compared; nothing stays."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.vocabulary import Entry

from lab.environment.bring_up import up
from lab.environment.state import ALIASES
from lab.environment.take_down import down
from tests.faults.people.test_manual_commands import LOGIN, Person
from tests.faults.readiness.one_check import check
from tests.faults.support.stepping import more_connections_path
from tests.faults.support.trips import SteppedTrips, stepped_trips
from tests.support.lab_clients import change_or_list_configs
from tests.support.rehearsals import SEED
from tests.support.staged_lab import Stage

GOOD, NO_USER, WRONG_PASSWORD, NO_WRITE, NO_COMMIT = "good", "nouser", "wrongpassword", "nowrite", "nocommit"
#: The lab's own producer, to which the standby refuses all writes until open_target.
FENCED = "producer"
NAMES = (GOOD, NO_USER, WRONG_PASSWORD, NO_WRITE, NO_COMMIT)
#: Application -> what it lacks on the standby: a right on a type of resource.
LACKING = {NO_WRITE: (ResourceType.TOPIC, "WRITE"), NO_COMMIT: (ResourceType.GROUP, "READ")}
RIGHTS = [*((ResourceType.TOPIC, right) for right in ("READ", "WRITE", "DESCRIBE")), (ResourceType.GROUP, "READ")]
TRIED = "application_client.ApplicationClient."
_SECONDS = 30.0


class Site:
    """Applications with topics and groups of their own; on the standby each but one lacks something."""

    def __init__(self, trips: SteppedTrips, stage: Stage) -> None:
        self.trips, self.stage, self.lab = trips, stage, trips.lab

    def name(self, *names: str) -> None:
        """Name these applications in the topology, and no others."""
        topology = yaml.safe_load(self.lab.topology.read_text())
        topology["applications"] = [
            {"name": name, "connections": {"standby": f"{name}_standby"}, "prefix": f"{name}-"} for name in names
        ]
        self.lab.topology.write_text(yaml.safe_dump(topology, sort_keys=False))

    def stands(self) -> dict[str, tuple[set[Any], set[str], set[str]]]:
        """ACL entries, topics and groups of both clusters."""
        found = {}
        for alias in ALIASES:
            client = self.stage.admin(alias)
            groups = client.list_consumer_groups(request_timeout=_SECONDS).result(_SECONDS).valid
            topics = set(client.list_topics(timeout=_SECONDS).topics)
            found[alias] = (self.stage.acls(alias), topics, {group.group_id for group in groups})
        return found

    def planned(self) -> tuple[str, dict[str, Any]]:
        """Run a planned failover whose plan is rejected; return what check_readiness said, and the plan."""
        run = self.trips.procedure("planned_failover")
        evidence = self.trips.driver.whole(run)
        assert "check_readiness" in run.texts, run.texts
        assert evidence["outcome"] == "refused", evidence["reason_for_outcome"]
        return run.texts["check_readiness"], evidence["plan"] or {}

    def notes(self) -> list[str]:
        """What the journal has of removals after trials: what was left each time."""
        entries = Journal(f"sqlite:///{self.lab.journal}").entries(kind=Entry.NOTE)
        return [left for entry in entries for left in entry.payload.get("access_left", ())]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A lab without Airflow; a first check has made Switchback's own topics."""
    state = tmp_path_factory.mktemp("lab")
    try:
        up(state, airflow=False, policy="identity")
        with applied(Stage(state), tmp_path_factory.mktemp("steps")) as made:
            yield made
    finally:
        down(state)
        shutil.rmtree(state, ignore_errors=True)


@contextmanager
def applied(stage: Stage, folder: Path) -> Iterator[Site]:
    """Have the applications' users, rights and connections inside this context."""
    stage.add_users(*NAMES)
    for name in NAMES:
        for alias in ALIASES:
            lacking = LACKING.get(name) if alias == "standby" else None
            stage.allow(*(entry_of(name, *right) for right in RIGHTS if right != lacking), aliases=[alias])
    change_users(
        stage,
        UserScramCredentialDeletion(NO_USER, ScramMechanism.SCRAM_SHA_512),
        UserScramCredentialUpsertion(
            WRONG_PASSWORD, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), b"another"
        ),
    )
    logins = {f"{name}_standby": stage.properties(name, "standby") for name in (*NAMES, FENCED)}
    connections = {
        name: {"conn_type": "kafka", "extra": {key: value for key, value in login.items() if key != "log_level"}}
        for name, login in logins.items()
    }
    more_connections_path(stage.lab).write_text(json.dumps(connections))
    with stepped_trips(stage.lab.root, folder, SEED, 0, recorded=False, watched=False) as trips:
        made = Site(trips, stage)
        trips.driver.asked = lambda _run, _gate, _seconds: "Reject"
        said, _ = made.planned()
        print(said, flush=True)
        yield made


def entry_of(name: str, kind: ResourceType, right: str) -> AclBinding:
    """An ALLOW entry of an application on its prefix."""
    prefixed, operation = ResourcePatternType.PREFIXED, AclOperation[right]
    return AclBinding(kind, f"{name}-", prefixed, f"User:{name}", "*", operation, AclPermissionType.ALLOW)


def change_users(stage: Stage, *changes: Any) -> None:
    """Change SCRAM users of the standby."""
    client = stage.admin("standby")
    for future in client.alter_user_scram_credentials(list(changes)).values():
        future.result(_SECONDS)


def paste(person: Person, commands: list[str], password: str) -> None:
    """Run commands in bash as a person does who knows the password."""
    login = LOGIN.format(person.lab.load().passwords["admin"])
    (person.folder / "target.properties").write_text(login)
    script = "\n".join(["set -e", *commands])
    subprocess.run(
        ["bash", "-c", script], cwd=person.folder, env=person.environment, input=f"{password}\n", text=True, check=True
    )


def test_each_application_is_refused_for_its_own_reason(site: Site) -> None:
    """By a blocker that names it, its connection and the answer; both clusters are as before, the right one passes."""
    before = site.stands()
    site.name(*NAMES, "absent")
    said, _ = site.planned()
    print(said, flush=True)
    assert "5 readiness checks failed" in said
    for name, cannot, answer in (
        (NO_USER, "log in", "_AUTHENTICATION"),
        (WRONG_PASSWORD, "log in", "_AUTHENTICATION"),
        (NO_WRITE, "write a record", "TOPIC_AUTHORIZATION_FAILED"),
        (NO_COMMIT, "commit a position of its group", "GROUP_AUTHORIZATION_FAILED"),
        ("absent", "be tried", "Connection absent_standby does not exist"),
    ):
        _, found, rest = said.partition(f"Application {name} cannot {cannot} on standby (connection {name}_standby: ")
        assert found and answer in rest.split("applications_work_on_target:")[0], name
    assert f"Application {GOOD} " not in said
    assert "password" not in said.replace(WRONG_PASSWORD, "").replace("user and password", "")
    assert site.stands() == before
    assert site.notes() == []


def test_a_right_application_is_proven_in_the_plan(site: Site) -> None:
    """What differs is listed with commands that end it, and nothing stays on the clusters."""
    site.name(GOOD, FENCED)
    change_or_list_configs(
        site.lab, "primary", *("--alter", "--entity-type", "users", "--entity-name", GOOD),
        "--add-config", "producer_byte_rate=1048576",
    )  # fmt: skip
    before = site.stands()
    said, plan = site.planned()
    assert said == "", said
    assert plan["access"] == {GOOD: "login, write, read, commit of a position", FENCED: "login"}
    told = [note for note in plan["unproven"] if FENCED in note]
    assert len(told) == 1 and "that it can write a record on standby cannot be tried before open_target" in told[0]
    texts = {shown["text"]: shown["commands"] for shown in plan["differences"]["shown"]}
    print(json.dumps(texts, indent=1), flush=True)
    assert len(texts) == plan["differences"]["count"]
    # The workload has topics with settings that MirrorMaker 2 does not copy.
    assert len([text for text in texts if not text.endswith("MirrorMaker 2 does not copy this setting.")]) == 4
    for start in (
        f"User {NO_USER} has SCRAM-SHA-512 with 4096 iterations on primary, and none on standby",
        f"User:{NO_WRITE} has 1 ALLOW entry on primary that standby lacks, and so may do less on standby",
        f"User:{NO_COMMIT} has 1 ALLOW entry on primary that standby lacks",
        f"Client quotas of user {GOOD}: producer_byte_rate 1048576 on primary, none on standby.",
    ):
        assert len([text for text in texts if text.startswith(start)]) == 1, start
    assert site.stands() == before
    assert site.notes() == []


@pytest.mark.parametrize("call", ["write", "commit", "close"])
def test_a_killed_check_leaves_nothing_for_the_next_one(site: Site, call: str) -> None:
    """Killed with the topic in place; the next try of the step removes it, or the closing of the run."""
    site.name(GOOD)
    before = site.stands()
    run = site.trips.procedure("planned_failover")
    assert site.trips.driver.forward(run, until="open_procedure")
    assert site.trips.driver.killed_at(run, "check_readiness", kill_before=TRIED + call)
    left = site.stands()["standby"][1] - before["standby"][1]
    assert left == {f"{GOOD}-switchback-access.replica"}
    if call == "write":
        assert site.trips.driver.step(run, "check_readiness") == "done", run.texts
        assert site.stands() == before
    site.trips.driver.step(run, "return_to_source")
    site.trips.driver.step(run, "close_procedure")
    assert site.stands() == before


def test_readiness_check_logs_in_and_changes_nothing(site: Site) -> None:
    """It says which login fails, and how the sites differ."""
    site.name(GOOD, WRONG_PASSWORD, NO_WRITE)
    before = site.stands()
    document = check(site.lab)
    found = {(finding["id"], finding["about"]) for finding in document["findings"]}
    logins = {about for name, about in found if name == "applications_work_on_target"}
    assert logins == {f"Application {WRONG_PASSWORD} cannot log in on standby"}
    assert ("sites_differ", "") in found
    assert document["differences"]["count"] == len(document["differences"]["shown"]) >= 4
    assert site.stands() == before


def test_the_commands_end_the_differences(site: Site, tmp_path: Path) -> None:
    """As the plan prints them, by Kafka's own tools; a user's password is typed in."""
    site.name(GOOD)
    _, plan = site.planned()
    done = [command for shown in plan["differences"]["shown"] for command in shown["commands"]]
    assert not any(shown["more_commands"] for shown in plan["differences"]["shown"])
    paste(Person(site.lab, tmp_path), done, f"{NO_USER}-password")
    site.name(GOOD, NO_USER, NO_WRITE, NO_COMMIT)
    said, plan = site.planned()
    assert said == "", said
    assert plan["differences"] == {}
    assert set(plan["access"].values()) == {"login, write, read, commit of a position"}
