"""What the authorizer's logs show is concluded only from logs that tell enough, and never as more than they tell."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from kafka_dr.domain.clients import kinds
from kafka_dr.domain.clients.authorizer_log import AuthorizerLog
from kafka_dr.domain.clients.logged_clients import LoggedClients, as_logged, find_logged_clients, logged_notes
from kafka_dr.domain.kafka_model.acl import AclEntry, AclRules

REAL = Path(__file__).parents[4] / "fixtures" / "authorizer_logs"
NOW = datetime(2026, 11, 28, 2, tzinfo=UTC)
EXEMPT = frozenset({"User:mm2", "User:orchestrator"})
TOPICS = frozenset({"orders", "payments"})
LINE = (
    "[{at}] DEBUG Principal = {who} is Allowed operation = {operation} from host = {host} on resource = {resource} for"
    " request = {request} with resourceRefCount = 1 based on rule {rule} (kafka.authorizer.logger)"
)


def allow(principal: str, name: str = "orders", pattern: str = "literal", operation: str = "write") -> AclEntry:
    """An ALLOW entry on topics."""
    return AclEntry("topic", name, pattern, principal, "*", operation, "allow")


def line(who: str, operation: str = "WRITE", request: str = "Produce", **parts: str) -> str:
    """A line about an allowed request."""
    other = {"at": "2026-11-28 01:00:00,000", "host": "h1", "resource": "Topic:LITERAL:orders", "rule": "DefaultAllow"}
    return LINE.format(who=who, operation=operation, request=request, **other | parts)


def fetch(who: str, **parts: str) -> str:
    """A line about a client's fetch."""
    return line(who, "READ", "Fetch", **parts)


def heartbeat(who: str, **parts: str) -> str:
    """A line about a heartbeat of a group's member."""
    return line(who, "READ", "Heartbeat", resource="Group:LITERAL:billing", **parts)


def told(*lines: str) -> AuthorizerLog:
    """What these lines tell."""
    log = AuthorizerLog()
    for one in lines:
        log.add(one)
    return log


def found(*logs: AuthorizerLog | str, rules: AclRules | None = None, **changes: Any) -> LoggedClients:
    """What is concluded from the logs of as many brokers."""
    named = {f"/logs/{number}": log for number, log in enumerate(logs, 1)}
    other = {"brokers": range(1, len(logs) + 1), "topics": TOPICS, "exempt": EXEMPT, "now": NOW} | changes
    return find_logged_clients(named, rules=rules or AclRules(frozenset()), **other)


@pytest.mark.parametrize("version", ["4.3.1", "2.8.2"])
def test_real_logs_of_both_authorizers(version: str) -> None:
    """The super user that wrote, a writer where everyone may write, and a reader without a group; not who has both."""
    log = told(*(REAL / f"kafka-{version}.log").read_text().splitlines())
    rules = AclRules(frozenset({allow("User:producer"), allow("User:*", "open")}))
    seen = found(log, rules=rules, topics=frozenset({"orders", "open"}), exempt=frozenset({"User:other"}))
    assert seen.problems == ()
    assert seen.writers == ("User:admin from 127.0.0.1 (no ACL entry stops it)", "User:mm2 from 127.0.0.1")
    assert seen.unstopped == ("User:admin",) and seen.readers == ("User:mm2 from 127.0.0.1",)
    assert "1 broker, from 2026-11-28 01:" in seen.covered
    spared = found(log, rules=rules, topics=frozenset({"orders", "open"}))
    assert [one.split()[0] for one in spared.writers] == ["User:admin"] and spared.readers == ()


@pytest.mark.parametrize(
    ("rules", "named", "unstopped"),
    [
        (AclRules(frozenset({allow("User:a")})), False, False),
        (AclRules(frozenset({allow("User:a", "ord", "prefixed")})), False, False),
        (AclRules(frozenset({allow("User:a", "*", operation="all")})), False, False),
        (AclRules(frozenset({allow("User:a", "payments")})), True, True),
        (AclRules(frozenset({allow("User:a", operation="read")})), True, True),
        (AclRules(frozenset({allow("User:*")})), True, False),
        (AclRules(frozenset({allow("User:other")})), True, True),
        (AclRules(frozenset(), allow_everyone=True), True, False),
        (AclRules(frozenset({allow("User:other")}), allow_everyone=True), True, True),
        (AclRules(frozenset(), frozenset({"User:a"})), True, True),
        (AclRules(frozenset({allow("User:a")}), frozenset({"User:a"})), True, True),
        (AclRules(frozenset({allow("User:*")}), EXEMPT), True, False),
        (AclRules(frozenset(), authorizer=False, rights_elsewhere=True), True, True),
    ],
)
def test_a_writer_is_named_unless_an_entry_of_its_own_lets_it(rules: AclRules, named: bool, unstopped: bool) -> None:
    """What the fence does to everyone stops it; no entry stops who has a right of which no entry tells."""
    seen = found(told(line("User:a")), rules=rules)
    mark = " (no ACL entry stops it)" if unstopped else ""
    assert seen.writers == ((f"User:a from h1{mark}",) if named else ())
    assert seen.unstopped == (("User:a",) if unstopped else ())
    for has_hook in (False, True):
        notes = logged_notes(seen, has_hook)
        assert len(notes) == (unstopped and not has_hook) and all("User:a" in note for note in notes)


def test_the_broker_knows_its_super_users_best() -> None:
    """Also one that the topology does not name, and that has an entry: the fence's DENY entry does not bind it."""
    rules = AclRules(frozenset({allow("User:root")}))
    assert found(told(line("User:root", rule="SuperUser")), rules=rules).unstopped == ("User:root",)
    older = "[2026-11-28 01:00:00,000] DEBUG principal = User:root is a super user, allowing operation without checking"
    assert found(told(line("User:root"), older), rules=rules).unstopped == ("User:root",)
    assert found(told(line("User:root")), rules=rules).writers == ()


def test_other_topics_and_exempt_principals_are_left_out() -> None:
    """MirrorMaker 2 reads without a group, and administrators are exempt from the fence."""
    other = "Topic:LITERAL:elsewhere"
    log = told(line("User:a", resource=other), fetch("User:b", resource=other), line("User:mm2"), fetch("User:mm2"))
    seen = found(log)
    assert seen.readers == seen.writers == seen.problems == () and seen.covered


def test_readers_are_told_from_members_by_principal_and_host() -> None:
    """An application may share the principal of another: on another host it is seen; its group may be on any broker."""
    one = told(fetch("User:app", host="h1"), fetch("User:app", host="h2"), fetch("User:app", host="h3"))
    other = told(heartbeat("User:app", host="h1"), heartbeat("User:x", host="h2"), fetch("User:z", host="h9"))
    assert found(one, other).readers == ("User:app from h2, h3", "User:z from h9")


def test_many_hosts_are_cut_and_odd_names_are_harmless() -> None:
    """Three hosts and the number of the others; no sign in a name changes how a page is read."""
    log = told(*(fetch("User:k8s", host=f"10.0.0.{n}") for n in range(9)), fetch("User:\u202eevil"))
    assert found(log).readers == ("User:k8s from 10.0.0.0, 10.0.0.1, 10.0.0.2 and 6 more", "User:\\u202eevil from h1")


REFUSED = "[2026-11-28 01:00:00,000] INFO " + line("User:a").split("DEBUG ")[1].replace("Allowed", "Denied")


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("cannot be read (No such file or directory); mend it", "/logs/2 cannot be read (No such file"),
        (told(), "/logs/2 is empty"),
        (told("a line", "another"), "/logs/2 has no line of the authorizer; set the broker's logger kafka.authorizer"),
        (
            told(REFUSED),
            "/logs/2 names refused requests only; set the broker's logger kafka.authorizer.logger to DEBUG",
        ),
        (told(line("User:a")[25:]), "/logs/2 has lines without a time"),
        (
            told(line("User:a", at="2026-11-26 01:59:59,000")),
            "/logs/2 names no allowed request after 2026-11-26 01:59:59",
        ),
    ],
)
def test_a_log_that_tells_too_little_leaves_all_unknown(log: AuthorizerLog | str, words: str) -> None:
    """Writers of the other broker's log are named; readers are not, for their group may be on this broker."""
    seen = found(told(line("User:a"), fetch("User:b")), log)
    assert len(seen.problems) == 1 and words in seen.problems[0] and ";" in seen.problems[0]
    assert seen.writers and seen.readers == () and seen.covered == ""
    for kind in (kinds.WITHOUT_GROUP, kinds.WITHOUT_ENTRY):
        assert as_logged(kind, seen).fate == kinds.UNSEEN and words in as_logged(kind, seen).happens
    assert as_logged(kinds.SHARE, seen) is kinds.SHARE


@pytest.mark.parametrize(("whole", "is_unknown"), [(98, True), (99, False)])
def test_one_cut_line_in_a_hundred_may_lack_its_time(whole: int, is_unknown: bool) -> None:
    """A rotation may cut a line in two; a log in which more lines lack their time is not read."""
    log = told(*[line("User:a")] * whole, line("User:b")[25:])
    assert bool(found(log).problems) == is_unknown and [one.split()[0] for one in found(log).writers] == ["User:a"]


def test_many_problems_are_cut() -> None:
    """Three are named, and the number of the others."""
    seen = found(*[told()] * 5)
    assert len(seen.problems) == 5 and "/logs/3 is empty" in as_logged(kinds.WITHOUT_GROUP, seen).happens
    assert as_logged(kinds.WITHOUT_GROUP, seen).happens.endswith(" and 2 more.")


def test_each_broker_has_a_log() -> None:
    """A client that writes to one broker alone is in the log of that broker alone."""
    (problem,) = found(told(line("User:a")), brokers=(3, 1)).problems
    assert "the topology names 1 log under authorizer_logs, and the source has 2 brokers (1, 3)" in problem
    assert found(told(line("User:a")), told(line("User:a")), brokers=(1,)).problems == ()


def test_the_period_is_that_of_all_logs() -> None:
    """From the latest beginning to the earliest end; logs without a common period show nothing together."""
    first = told(line("User:a", at="2026-11-28 00:10:00,000"), line("User:a", at="2026-11-28 01:10:00,000"))
    second = told(line("User:a", at="2026-11-28 00:20:00,000"), line("User:a", at="2026-11-28 01:20:00,000"))
    assert found(first, second).covered == (
        "2 brokers, from 2026-11-28 00:20:00 to 2026-11-28 01:10:00 by the brokers' clocks"
    )
    apart = found(first, told(line("User:a", at="2026-11-28 01:30:00,000")))
    assert (
        "no period in common: one begins at 2026-11-28 01:30:00, another ends at 2026-11-28 01:10:00"
        in apart.problems[0]
    )


@pytest.mark.parametrize("ahead", [timedelta(0), timedelta(hours=14), timedelta(days=-1), timedelta(hours=-47)])
def test_another_clock_changes_nothing(ahead: timedelta) -> None:
    """Times of a log are compared with each other; only a log that nobody writes any more is told by its age."""
    assert found(told(line("User:a")), now=NOW - ahead).problems == ()
