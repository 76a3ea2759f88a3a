"""What doctor makes of what it has seen: rights, identity, clocks, versions, settings of the journal's database."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kafka_dr.domain.doctor.airflow_state import (
    DagTask,
    component_findings,
    import_findings,
    pool_findings,
    queue_findings,
)
from kafka_dr.domain.doctor.clocks import ClockReading, clock_findings
from kafka_dr.domain.doctor.durability import (
    ServerSettings,
    durability_findings,
    file_findings,
    revision_findings,
    right_findings,
)
from kafka_dr.domain.doctor.finding import (
    ExaminedPlace,
    InstallationFinding,
    by_finding,
    differing_places,
    standing_findings,
)
from kafka_dr.domain.doctor.identity import OtherLogin, SeenWorker, identity_findings
from kafka_dr.domain.doctor.rights import (
    CLUSTER_NAME,
    NEEDED,
    OPTIONAL,
    OWN_OPERATIONS,
    OWN_TOPICS,
    Grantee,
    exempt_findings,
    lacking_rights,
    spared_probe_findings,
)
from kafka_dr.domain.doctor.versions import SUPPORTED, version_findings
from kafka_dr.domain.kafka_model.acl import AclEntry, AclRules
from kafka_dr.domain.manual.context import ToolAccess
from kafka_dr.vocabulary import PROBE_TOPIC

ROOT = Path(__file__).parents[5]
PLACE = ToolAccess("primary", "broker:9092", "admin.properties")
ME = "User:switchback"
EVERYTHING = frozenset(right.operation for right in (*NEEDED, *OPTIONAL))
ALLOWED: dict[str, dict[str, frozenset[str]]] = {
    "cluster": {CLUSTER_NAME: EVERYTHING},
    "topic": {"orders": EVERYTHING, "payments": EVERYTHING},
    "group": {"billing": EVERYTHING},
    "transactional_id": {"any": EVERYTHING},
}


def finding(reason: str = "r", may_pass: bool = True, check: str = "reach") -> InstallationFinding:
    """A finding."""
    return InstallationFinding(check, "about", reason, "seen", "do", may_pass)


def without(kind: str, name: str, operation: str) -> dict[str, dict[str, frozenset[str]]]:
    """All rights but one on one resource."""
    return {**ALLOWED, kind: {**ALLOWED[kind], name: ALLOWED[kind][name] - {operation}}}


# -- rights -----------------------------------------------------------------------------------------------------------


def test_whoever_has_all_rights_lacks_none() -> None:
    """Needed and optional ones."""
    assert list(lacking_rights((*NEEDED, *OPTIONAL), ALLOWED)) == []


@pytest.mark.parametrize("right", [*NEEDED, *OPTIONAL], ids=lambda right: f"{right.resource_type}-{right.operation}")
def test_each_right_taken_away_is_named_alone_with_its_command(right: Any) -> None:
    """With the command that gives it back, on the one resource where it is lacking, or on all of them."""
    for names in (list(ALLOWED[right.resource_type])[:1], list(ALLOWED[right.resource_type])):
        allowed = ALLOWED
        for name in names:
            taken = {**allowed[right.resource_type], name: EVERYTHING - {right.operation}}
            allowed = {**allowed, right.resource_type: taken}
        (lacking,) = lacking_rights((*NEEDED, *OPTIONAL), allowed)
        found = Grantee(ME, PLACE).finding("kafka_rights", lacking)
        assert right.operation.upper() in found.reason and found.seen.endswith(right.purpose)
        operation = "".join(word.capitalize() for word in right.operation.split("_"))
        assert "kafka-acls.sh --bootstrap-server broker:9092" in found.next_step and ME in found.next_step
        assert f"--add --allow-principal {ME}" in found.next_step and f"--operation {operation} " in found.next_step
        everywhere = len(names) == len(ALLOWED[right.resource_type]) and right.resource_type != "cluster"
        assert found.next_step.endswith(
            "'*'" if everywhere else "--cluster" if right.resource_type == "cluster" else names[0]
        )


def test_a_deny_entry_is_removed_before_the_right_is_given() -> None:
    """An ALLOW entry would not help against it."""
    denial = AclEntry("topic", "*", "literal", "User:*", "*", "read", "deny")
    (lacking,) = lacking_rights(NEEDED, without("topic", "orders", "read"))
    found = Grantee(ME, PLACE, AclRules(frozenset({denial}))).finding("kafka_rights", lacking)
    removed, _, added = found.next_step.partition("; ")
    assert "--remove" in removed and "--deny-principal 'User:*'" in removed and "--add" in added


def test_commands_that_are_left_out_are_counted() -> None:
    """A right that many topics lack, and one has, takes more commands than a finding shows."""
    topics = {f"orders-{number:03}": EVERYTHING - {"read"} for number in range(120)} | {"bills": EVERYTHING}
    (lacking,) = lacking_rights(NEEDED, {**ALLOWED, "topic": topics})
    found = Grantee(ME, PLACE).finding("kafka_rights", lacking)
    assert found.next_step.count("kafka-acls.sh") == 2
    assert found.next_step.endswith("1 more command: run these, then doctor again, which shows the rest")


def test_nothing_is_said_of_a_type_of_which_nothing_was_read() -> None:
    """Without an authorizer by ACL entries nothing is known of transactional ids."""
    assert list(lacking_rights(NEEDED, {**ALLOWED, "transactional_id": {}})) == []


def rules(*entries: tuple[str, str, str, str]) -> AclRules:
    """ACL rules of ALLOW entries: principal, operation, name, pattern."""
    return AclRules(
        frozenset(
            AclEntry("topic", name, pattern, who, "*", operation, "allow") for who, operation, name, pattern in entries
        )
    )


def test_own_topics_need_all_rights() -> None:
    """By one entry for all of them, or by wildcards; the command gives the one entry."""
    whole = [(ME, "all", "__switchback", "prefixed")]
    single = [(ME, operation, "*", "literal") for operation in OWN_OPERATIONS]
    for given in (whole, single):
        assert list(Grantee(ME, PLACE, rules(*given)).own_topics_finding()) == []
    (found,) = Grantee(ME, PLACE, rules(*[s for s in single if s[1] != "write"])).own_topics_finding()
    assert (
        "WRITE on topics beginning" in found.seen
        and "--resource-pattern-type prefixed --topic __switchback" in found.next_step
    )
    assert all(topic.startswith("__switchback") for topic in OWN_TOPICS)


def test_the_probe_is_judged_without_the_fence() -> None:
    """A standing fence denies it on purpose."""
    given = [("User:probe", "write", PROBE_TOPIC, "literal"), ("User:probe", "describe", PROBE_TOPIC, "literal")]
    fence = AclEntry("topic", PROBE_TOPIC, "literal", "User:probe", "*", "write", "deny")
    probe = Grantee("User:probe", PLACE, rules(*given).with_entries([fence]))
    assert list(probe.probe_findings()) == []
    (found,) = Grantee("User:probe", PLACE, rules(given[1])).probe_findings()
    assert "WRITE" in found.seen and "--operation Write" in found.next_step


def test_a_principal_that_no_fence_spares_is_named() -> None:
    """Unless only brokers know who logs in."""
    assert list(exempt_findings("primary", ME, {ME})) == list(exempt_findings("primary", "", set())) == []
    (found,) = exempt_findings("primary", ME, {"User:other"})
    assert "User:other" in found.seen and ME in found.next_step


def test_a_probe_that_a_fence_spares_is_named() -> None:
    """It would write through every fence."""
    assert list(spared_probe_findings("primary", "User:probe", {ME})) == []
    (found,) = spared_probe_findings("primary", ME, {ME})
    assert ME in found.seen and "ordinary client" in found.next_step


# -- identity ---------------------------------------------------------------------------------------------------------

IDS = {"primary": "P", "standby": "S"}
WORKERS = [SeenWorker("connect_standby", "standby", "S"), SeenWorker("connect_primary", "primary", "P")]


def reasons(ids: dict[str, str], workers: list[SeenWorker], earlier: dict[str, str] | None = None) -> list[str]:
    """What is said."""
    return [found.reason for found in identity_findings(ids, workers, earlier or {})]


def test_right_clusters_are_not_named() -> None:
    """Also while a cluster or all workers do not answer."""
    assert (
        reasons(IDS, WORKERS, IDS)
        == reasons({}, WORKERS)
        == reasons(IDS, [])
        == reasons({"primary": "P"}, WORKERS, IDS)
        == []
    )


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        ({"primary": "S", "standby": "S"}, "The connections of primary and standby lead to one cluster"),
        ({"primary": "S", "standby": "P"}, "The connections of primary and standby are swapped"),
        ({"primary": "P", "standby": "X"}, "The Connect worker of the flow does not write to the target"),
    ],
)
def test_a_wrong_cluster_is_named_once(ids: dict[str, str], said: str) -> None:
    """One cause, one finding; also if the journal has the right ids."""
    assert reasons(ids, WORKERS) == reasons(ids, WORKERS, IDS) == [said]


def test_without_workers_the_journal_tells_a_wrong_cluster() -> None:
    """A source that is no flow's target has no worker beside it."""
    assert reasons({"primary": "X", "standby": "S"}, WORKERS[:1], IDS) == [
        "The connection of primary leads to another cluster than in the last run"
    ]


def test_a_login_that_leads_elsewhere_is_named_unless_the_cluster_itself_is_the_wrong_one() -> None:
    """A probe that asks another cluster proves nothing; where the cluster's own connection is wrong, that is named."""
    probes = [OtherLogin("probe_standby", "standby", "S"), OtherLogin("probe_primary", "primary", "P")]
    assert list(identity_findings(IDS, WORKERS, IDS, probes)) == []
    away = OtherLogin("probe_standby", "standby", "P")
    (found,) = identity_findings(IDS, WORKERS, {}, [away])
    assert found.reason == "The connection probe_standby leads to another cluster than standby"
    for wrong in ({"primary": "S", "standby": "P"}, {"primary": "P", "standby": "X"}):
        assert len(list(identity_findings(wrong, WORKERS, IDS, probes))) == 1


# -- clocks -----------------------------------------------------------------------------------------------------------


def test_clocks_within_the_limit_are_not_named() -> None:
    """Nor those of which the answer took so long that nothing is proven."""
    assert list(clock_findings({"a": ClockReading(9.0, 0.1), "b": ClockReading(-60.0, 55.0)}, "here")) == []


@pytest.mark.parametrize(("ahead", "word"), [(-120.0, "ahead"), (120.0, "behind")])
def test_one_wrong_clock_here_is_one_finding(ahead: float, word: str) -> None:
    """All others agree."""
    (found,) = clock_findings({"a": ClockReading(ahead, 1), "b": ClockReading(ahead + 1, 1)}, "here")
    assert not found.may_pass, "a clock is read once: another look would find the same, a minute later"
    assert f"here, is {word} of the others" in found.reason and ("2 min" in found.seen or "120 s" in found.seen)


def test_a_wrong_clock_elsewhere_is_named() -> None:
    """By its name, once each."""
    found = list(clock_findings({"a": ClockReading(60, 1), "b": ClockReading(0, 1), "c": ClockReading(-60, 1)}, "here"))
    assert [one.about for one in found] == ["a", "c"]


# -- versions and the journal's database ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "version", "fine"),
    [
        ("Airflow", "3.0.6", False),
        ("Airflow", "3.1.8", True),
        ("Airflow", "3.3.2", True),
        ("Airflow", "3.4.0", False),
        ("Python", "3.10.2", False),
        ("Python", "3.13.0", True),
        ("Java", "1.8.0_392", False),
        ("Java", "17.0.15", True),
        ("Java", "21", True),
        ("Spark", "4.2.0", True),
        ("Spark", "3.5.1", False),
        ("PostgreSQL", "15.8 (Debian 15.8-0+deb12u1)", True),
        ("PostgreSQL", "9.6", False),
        ("Airflow", "", False),
    ],
)
def test_versions_outside_the_supported_ones_are_named(program: str, version: str, fine: bool) -> None:
    """And one that cannot be read."""
    found = list(version_findings(program, "here", version))
    assert (found == []) == fine and program in SUPPORTED


SAFE = ServerSettings("15.8", {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on"})


def test_a_durable_database_is_not_named() -> None:
    """With synchronous standbys, too."""
    named = replace(SAFE, standbys=2, settings={**SAFE.settings, "synchronous_standby_names": "ANY 1 (a, b)"})
    for server in (SAFE, named):
        assert list(durability_findings("db", server)) == list(right_findings("db", server, has_tables=True)) == []


@pytest.mark.parametrize("setting", ["fsync", "full_page_writes", "synchronous_commit"])
def test_each_setting_that_loses_entries_is_named_alone(setting: str) -> None:
    """With the setting to change."""
    (found,) = durability_findings("db", replace(SAFE, settings={**SAFE.settings, setting: "off"}))
    assert setting in found.seen and setting in found.next_step and found.about == setting


def test_asynchronous_standbys_are_named() -> None:
    """They may be promoted without the last entries."""
    (found,) = durability_findings("db", replace(SAFE, standbys=1))
    assert "asynchronous" in found.reason and "synchronous_standby_names" in found.next_step


def test_a_role_without_rights_is_named() -> None:
    """On tables that are there, or to create them."""
    (found,) = right_findings("db", replace(SAFE, missing_rights=("INSERT on entries",)), has_tables=True)
    assert "INSERT on entries" in found.seen
    (found,) = right_findings("db", replace(SAFE, can_create=False), has_tables=False)
    assert "may not create" in found.reason


def test_only_unknown_revisions_are_named() -> None:
    """An older one is migrated when the journal is opened, a missing one created."""
    assert list(revision_findings("db", None, ("1", "2"))) == list(revision_findings("db", "1", ("1", "2"))) == []
    assert len(list(revision_findings("db", "3", ("1", "2")))) == 1


@pytest.mark.parametrize(
    ("kind", "alone", "count"), [("ext4", True, 0), ("", True, 0), ("nfs4", True, 1), ("ext4", False, 1)]
)
def test_sqlite_serves_one_machine_with_a_disk_of_its_own(kind: str, alone: bool, count: int) -> None:
    """No network file system, no executor on several machines."""
    assert len(list(file_findings("/journal.db", kind, alone))) == count


# -- Airflow ----------------------------------------------------------------------------------------------------------

HEALTHY = dict.fromkeys(("metadatabase", "scheduler", "triggerer", "dag_processor"), "healthy")


@pytest.mark.parametrize("part", HEALTHY)
def test_each_part_that_is_not_healthy_is_named_alone(part: str) -> None:
    """Also one of which Airflow says nothing."""
    assert list(component_findings(HEALTHY)) == []
    assert [found.about for found in component_findings({**HEALTHY, part: None})] == [part]


def test_import_errors_of_own_files_are_named_with_their_last_line() -> None:
    """Other teams' files are not Switchback's."""
    errors = {"dags/failback.py": "Traceback\n  line\nImportError: no x\n", "theirs.py": "Error"}
    (found,) = import_findings(errors, ["failback.py"])
    assert found.seen == "dags/failback.py: ImportError: no x"


TASKS = [DagTask("failback", "forecast", "default", "default_pool"), DagTask("failback", "drain", "spark", "spark")]


def test_pools_that_are_missing_or_have_no_slot_are_named() -> None:
    """An endless pool has -1."""
    assert list(pool_findings(TASKS, {"default_pool": 128, "spark": -1})) == []
    assert [found.about for found in pool_findings(TASKS, {"default_pool": 0})] == ["pool default_pool", "pool spark"]


def test_a_queue_that_was_not_examined_is_named() -> None:
    """With tasks that run there."""
    (found,) = queue_findings(TASKS, ["default"])
    assert found.about == "queue spark" and "failback.drain" in found.seen
    assert list(queue_findings(TASKS, ["default", "spark"])) == []


# -- findings of several looks and machines ---------------------------------------------------------------------------


def test_only_what_every_look_finds_counts() -> None:
    """Brokers that restart one by one are found once each; what cannot pass counts at once."""
    assert standing_findings([[finding("broker 1")], [finding("broker 2")]]) == []
    assert standing_findings([[finding("a")], [finding("a"), finding("b")]]) == [finding("a")]
    assert standing_findings([[finding("wrong", may_pass=False)]]) == [finding("wrong", may_pass=False)]


def place(name: str, host: str, *findings: InstallationFinding, version: str = "1") -> ExaminedPlace:
    """What was seen from one machine."""
    return ExaminedPlace(name, host, findings, {"Switchback": version}, ("reach a",), {"spark x": "because of y"})


def test_a_finding_of_several_machines_is_printed_once() -> None:
    """With all of them."""
    ((found, seen),) = by_finding([place("here", "a", finding()), place("default", "b", finding())])
    assert found == finding() and seen == ["a", "b (queue default)"]


def test_machines_with_different_versions_are_named() -> None:
    """One machine alone differs from none."""
    (found,) = differing_places([place("x", "a"), place("y", "b", version="2")])
    assert "a (queue x): 1; b (queue y): 2" in found.seen
    assert differing_places([place("x", "a"), place("y", "b")]) == []


def test_a_place_survives_its_way_through_json() -> None:
    """As a task returns it."""
    seen = place("x", "a", finding())
    assert ExaminedPlace.of(seen.as_dict()) == seen
