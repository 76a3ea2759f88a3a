"""Differences between both sites: what is one, what is none, and which commands end it."""

from __future__ import annotations

import shlex
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.domain.access.all_differences import brief_differences, list_differences, whole_differences
from kafka_dr.domain.access.differences import Difference
from kafka_dr.domain.access.differences_page import access_markdown, differences_markdown
from kafka_dr.domain.kafka_model.acl import AclChange, AclEntry, AclRules
from kafka_dr.domain.kafka_model.client_quotas import QuotaEntity
from kafka_dr.domain.manual.context import ToolAccess
from kafka_dr.domain.manual.setting_commands import user_command
from kafka_dr.domain.readiness.observation import Observation, TopicView

from tests.plugins.kafka_dr.domain.readiness.test_readiness import RIGHTS, acl, cluster, seen
from tests.support.examples import examples

SHA512 = {"SCRAM-SHA-512": 4096}
TOOL = "--bootstrap-server standby:9092 --command-config target.properties"


def found(observation: Observation) -> list[Difference]:
    """All differences, with commands for these servers."""
    return list_differences(observation, "standby:9092")


def pair(source: dict[str, Any] | None = None, target: dict[str, Any] | None = None, **changes: Any) -> Observation:
    """Two clusters that differ in what is given."""
    return seen(source=cluster("primary", **(source or {})), target=cluster("standby", **(target or {})), **changes)


def rules(*more: AclEntry, without: frozenset[AclEntry] = frozenset()) -> AclRules:
    """The ACL entries of a healthy cluster with some more, and without others."""
    return AclRules((RIGHTS | set(more)) - without)


def test_alike_sites_do_not_differ() -> None:
    """What cannot be listed is no difference; a note says so."""
    assert found(seen()) == []
    same = {"scram": {"app": SHA512}, "quotas": {QuotaEntity.of({"user": "app"}): {"producer_byte_rate": 1.0}}}
    assert found(pair(same, same)) == []
    assert found(pair(same, {"scram": None, "quotas": None})) == []


def test_a_missing_user_needs_its_password_typed_in() -> None:
    """No command contains a password; the exempt user of MirrorMaker 2 is no client. A mechanism is a command."""
    both = {"SCRAM-SHA-256": 8192, **SHA512}
    (difference,) = found(pair({"scram": {"app": both, "mm2": SHA512}}, {"scram": {}}))
    assert difference.text.startswith(
        "User app has SCRAM-SHA-256 with 8192 iterations, SCRAM-SHA-512 with 4096 iterations on primary, and none on"
        " standby. Passwords cannot be copied"
    )
    command, _ = difference.commands
    assert f" && kafka-configs.sh {TOOL} --alter --entity-type users --entity-name app --add-config-file <(" in command


def test_fewer_iterations_differ_and_more_do_not() -> None:
    """More work for who guesses a password harms no client."""
    weaker = found(pair({"scram": {"app": {"SCRAM-SHA-256": 8192}}}, {"scram": {"app": {"SCRAM-SHA-256": 4096}}}))
    assert "SCRAM-SHA-256 with 8192 iterations on primary, and SCRAM-SHA-256 with 4096" in weaker[0].text
    assert (
        found(pair({"scram": {"app": SHA512}}, {"scram": {"app": {"SCRAM-SHA-512": 9999, "SCRAM-SHA-256": 1}}})) == []
    )


def test_the_tool_gets_the_password_by_a_pipe(tmp_path: Path) -> None:
    """Whatever user and password are: no argument has it, no file, and properties are written as Java reads them."""
    tool = tmp_path / "kafka-configs.sh"
    tool.write_text('#!/bin/sh\nprintf "%s\\n" "$@" > told\nfor last; do :; done\ncat "$last"\n')
    tool.chmod(0o755)
    place = ToolAccess("standby", "s:1", "target.properties")
    command = user_command(place, "it's; me", "SCRAM-SHA-256", 8192)
    path = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, env=path, input=b"a\\b$c, d\n", capture_output=True, check=True
    )
    assert done.stdout.decode() == "SCRAM-SHA-256=iterations=8192,password=a\\\\b$c, d\n"
    told = (tmp_path / "told").read_text().splitlines()
    assert told[4:9] == ["--alter", "--entity-type", "users", "--entity-name", "it's; me"]
    assert "b$c" not in "".join(told)


@pytest.mark.parametrize(
    ("names", "entity", "told"),
    [
        ({"user": "app"}, "--entity-type users --entity-name app", "user app"),
        ({"client-id": None}, "--entity-type clients --entity-default", "every client-id"),
        (
            {"client-id": "a b", "user": None},
            "--entity-type users --entity-default --entity-type clients --entity-name 'a b'",
            "every user, client-id a b",
        ),
        ({"ip": "10.0.0.1"}, "--entity-type ips --entity-name 10.0.0.1", "ip 10.0.0.1"),
    ],
)
def test_each_kind_of_quota(names: dict[str, str | None], entity: str, told: str) -> None:
    """By user, client id, both, address, and their defaults; a limit that only the target has is taken away."""
    key = QuotaEntity.of(names)
    source, target = {key: {"producer_byte_rate": 1048576.0}}, {key: {"consumer_byte_rate": 10.5}}
    (difference,) = found(pair({"quotas": source}, {"quotas": target}))
    assert difference.text == (
        f"Client quotas of {told}: producer_byte_rate 1048576 on primary, consumer_byte_rate 10.5 on standby."
        f" Brokers of standby slow down {told} earlier."
    )
    assert difference.commands == (
        f"kafka-configs.sh {TOOL} --alter {entity} --add-config producer_byte_rate=1048576",
        f"kafka-configs.sh {TOOL} --alter {entity} --delete-config consumer_byte_rate",
    )


def test_a_quota_that_the_target_lacks_slows_nobody_down() -> None:
    """It is a difference all the same: brokers of the target are not protected from the client."""
    key = QuotaEntity.of({"user": "app"})
    (difference,) = found(pair({"quotas": {key: {"producer_byte_rate": 5.0}}}, {"quotas": {}}))
    assert "none on standby" in difference.text
    assert "slow down" not in difference.text
    of_mirror_maker = {QuotaEntity.of({"user": "mm2"}): {"producer_byte_rate": 5.0}}
    assert found(pair({"quotas": of_mirror_maker}, {"quotas": {}})) == []


def test_entries_of_one_side_alone() -> None:
    """Those of a principal are one difference for each direction, with exact commands."""
    only_here, only_there = acl("User:app", "write", "audit"), acl("User:old", "read", "orders")
    lost, extra = found(pair({"rules": rules(only_here)}, {"rules": rules(only_there)}))
    assert lost.text.startswith(
        "User:app has 1 ALLOW entry on primary that standby lacks, and so may do less on standby"
    )
    (command,) = lost.commands
    assert command == (
        f"kafka-acls.sh {TOOL} --add --allow-principal User:app --allow-host '*' --operation Write"
        " --resource-pattern-type literal --topic audit"
    )
    assert extra.text.startswith("User:old has 1 ALLOW entry on standby that primary lacks, and so may do more")
    assert "--remove --force --allow-principal User:old" in extra.commands[0]


@pytest.mark.parametrize(
    "broader",
    [
        AclEntry("topic", "aud", "prefixed", "User:app", "*", "write", "allow"),
        AclEntry("topic", "*", "literal", "User:app", "*", "write", "allow"),
        AclEntry("topic", "audit", "literal", "User:*", "*", "write", "allow"),
        AclEntry("topic", "audit", "literal", "User:app", "*", "all", "allow"),
    ],
)
def test_what_a_broader_entry_includes_is_no_difference_there(broader: AclEntry) -> None:
    """The right is the same; only what is broader on the target is told."""
    told = found(pair({"rules": rules(acl("User:app", "write", "audit"))}, {"rules": rules(broader)}))
    assert all("standby that primary lacks" in difference.text for difference in told)
    assert len(told) == 1
    host = replace(broader, host="10.0.0.1")
    assert (
        "primary that standby lacks"
        in found(pair({"rules": rules(acl("User:app", "write", "audit"))}, {"rules": rules(host)}))[0].text
    )


def test_reading_includes_describing_but_denies_do_not() -> None:
    """As the authorizer has it."""
    describe, read = acl("User:app", "describe", "audit"), acl("User:app", "read", "audit")
    assert len(found(pair({"rules": rules(describe)}, {"rules": rules(read)}))) == 1
    denied = [replace(entry, permission="deny") for entry in (describe, read)]
    assert len(found(pair({"rules": rules(denied[0])}, {"rules": rules(denied[1])}))) == 2


def test_what_open_target_reverts_is_no_difference() -> None:
    """A standing fence, and denials of a new standby, go before clients come."""
    denial = acl("User:app", "write", "*", permission="deny")
    assert found(pair(target={"rules": rules(denial)})) == []
    replaced, put = acl("User:*", "write", "orders"), acl("User:mm2", "write", "orders")
    fence = AclChange((put,), (replaced,))
    assert found(pair({"rules": rules(replaced)}, {"rules": rules(put)}, target_fence=fence)) == []
    kept = acl("User:app", "read", "orders", permission="deny")
    assert "may do less on standby" in found(pair(target={"rules": rules(kept)}))[0].text


def test_entries_that_are_no_clients_or_of_mirrored_topics() -> None:
    """Switchback's own, MirrorMaker 2's, a marker's; under default naming those on copies."""
    ours = [
        acl("User:probe", "write", "__switchback_probe"),
        acl("User:app", "read", "switchback-canary.replica"),
        acl("User:mm2", "write", "audit"),
        acl("User:switchback-marker", "read", "__switchback_marker"),
    ]
    assert found(pair({"rules": rules(*ours)})) == []
    copy = pair({"rules": rules(acl("User:app", "write", "standby.orders", permission="deny"))})
    assert len(found(copy)) == 1
    assert found(replace(copy, naming_policy="default")) == []
    assert found(pair({"rules": replace(rules(*ours, acl("User:app", "write", "x")), authorizer=False)})) == []


def topic(overrides: str = "", **configs: str) -> TopicView:
    """A topic with these settings, dots written as double underscores; `overrides`: names of its own ones."""
    return TopicView("t-1", 2, 1, {k.replace("__", "."): v for k, v in configs.items()}, frozenset(overrides.split()))


def test_settings_that_a_topic_of_either_side_sets() -> None:
    """What MirrorMaker 2 copies and what it does not; a default that differs is none of it."""
    here = topic("retention.ms message.timestamp.type", retention__ms="5", message__timestamp__type="LogAppendTime")
    there = topic("", retention__ms="9", message__timestamp__type="CreateTime", segment__bytes="1")
    stamped, kept = found(pair({"topics": {"orders": here}}, {"topics": {"orders": there}}))
    assert stamped.text == (
        "message.timestamp.type is LogAppendTime on primary and CreateTime on standby, of 1 topic: orders."
        " MirrorMaker 2 does not copy this setting."
    )
    assert kept.text.endswith("MirrorMaker 2 copies this setting, and has not done so yet.")
    assert kept.commands == (
        f"kafka-configs.sh {TOOL} --alter --entity-type topics --entity-name orders --add-config retention.ms=5",
    )


def test_a_setting_with_commas_is_written_in_brackets() -> None:
    """As kafka-configs wants it."""
    here, there = topic("cleanup.policy", cleanup__policy="compact,delete"), topic("", cleanup__policy="delete")
    (difference,) = found(pair({"topics": {"orders": here}}, {"topics": {"orders": there}}))
    assert "'cleanup.policy=[compact,delete]'" in difference.commands[0]


def test_a_reassignment_under_way_is_no_difference() -> None:
    """Its settings name brokers of one cluster."""
    throttled = topic("leader.replication.throttled.replicas", leader__replication__throttled__replicas="0:1")
    assert found(pair({"topics": {"orders": throttled}}, {"topics": {"orders": topic()}})) == []


def test_a_large_site() -> None:
    """20,000 entries and 10,000 topics: one difference for each principal, one for topics alike."""
    entries = [acl(f"User:app-{n % 500}", ("read", "write")[n % 2], f"topic-{n}") for n in range(20_000)]
    names = {f"topic-{n}": f"topic-{n}" for n in range(10_000)}
    here = dict.fromkeys(names, topic("retention.ms", retention__ms="5"))
    there = dict.fromkeys(names, topic("", retention__ms="9"))
    large = pair({"rules": rules(*entries), "topics": here}, {"rules": rules(), "topics": there}, scope=names)
    differences = found(large)
    assert len(differences) == 501
    assert sum(len(d.commands) for d in differences) == 10_000 + 500
    assert len(brief_differences(differences)["shown"]) == 20
    assert len(whole_differences(differences)["differences"]) == 501


ENTRIES = st.sets(
    st.builds(
        AclEntry,
        st.sampled_from(["topic", "group"]),
        st.sampled_from(["a", "ab", "b", "*"]),
        st.sampled_from(["literal", "prefixed"]),
        st.sampled_from(["User:x", "User:y", "User:*"]),
        st.just("*"),
        st.sampled_from(["read", "write", "describe", "all"]),
        st.just("allow"),
    ),
    max_size=8,
)


@examples(300)
@given(ENTRIES, ENTRIES)
def test_rights_are_alike_where_no_difference_is_found(here: set[AclEntry], there: set[AclEntry]) -> None:
    """Without a difference the authorizer answers alike on both sides, for every principal, operation and name."""
    differences = found(pair({"rules": AclRules(frozenset(here))}, {"rules": AclRules(frozenset(there))}))
    if differences:
        return
    for kind in ("topic", "group"):
        for operation in ("read", "write", "describe"):
            on_both = [
                AclRules(frozenset(e)).rights(operation, kind, ["a", "ab", "abc", "b", "c"]) for e in (here, there)
            ]
            for principal in ("User:x", "User:y", "User:z"):
                assert on_both[0].names_allowed(principal) == on_both[1].names_allowed(principal)


def test_the_plan_names_the_first_differences_with_their_commands() -> None:
    """A name that would end the block of commands leaves its commands to the file."""
    many = [Difference(f"topic a|{n}", tuple(f"command {n} {m}" for m in range(5))) for n in range(21)]
    hostile = Difference("hostile", (f"kafka-acls.sh --topic {shlex.quote('x```y')}",))
    shown = brief_differences([hostile, *many]) | {"file": "differences-1.json"}
    text = "\n".join(differences_markdown({"source": "primary", "target": "standby", "differences": shown}))
    assert "**For clients standby differs from primary in 22 points**" in text
    assert "- topic a\\|0\n\n  ```\n  command 0 0\n  command 0 1\n  command 0 2\n  # and 2 more\n  ```" in text
    assert "x```y" not in text
    assert "2 more points and all commands are in the file differences-1.json" in text
    assert differences_markdown({"source": "primary", "target": "standby"}) == []


def test_the_plan_names_what_applications_logins_showed() -> None:
    """Nothing is said where the topology names no application."""
    plan = {"target": "standby", "access": {"orders": "login, write", "a|b": "nothing"}}
    assert access_markdown(plan) == [
        "Shown on standby with applications' own logins: a\\|b: nothing; orders: login, write.",
        "",
    ]
    assert access_markdown({"target": "standby"}) == []
