"""Lines of the authorizer's log as real brokers write them, and in the forms that layouts and shippers give them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from kafka_dr.domain.clients.authorizer_log import WINDOW, AuthorizerLog, parse_line

REAL = Path(__file__).parents[4] / "fixtures" / "authorizer_logs"
VERSIONS = ("4.3.1", "2.8.2")
HOST = "127.0.0.1"
ALLOWED = (
    "Principal = {who} is Allowed operation = WRITE from host = 10.0.0.7 on resource = Topic:LITERAL:orders for request"
    " = Produce with resourceRefCount = 1 based on rule DefaultAllow (kafka.authorizer.logger)"
)
MOMENT = datetime(2026, 11, 28, 1, 2, 3, 456_000, UTC)


def told(*lines: str) -> AuthorizerLog:
    """What these lines tell."""
    log = AuthorizerLog()
    for line in lines:
        log.add(line)
    return log


def line(at: str = "[2026-11-28 01:02:03,456] DEBUG ", who: str = "User:alice", **parts: str) -> str:
    """A line as StandardAuthorizer writes it, with parts replaced."""
    text = at + ALLOWED.format(who=who)
    for old, new in parts.items():
        assert old in text
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize("version", VERSIONS)
def test_real_lines_of_both_authorizers(version: str) -> None:
    """Who wrote, who fetched, who used a group, and who is a super user; refused requests tell of nobody."""
    lines = (REAL / f"kafka-{version}.log").read_text().splitlines()
    log = told(*lines)
    assert set(log.writes()) == {
        ("User:producer", HOST, "orders"),
        ("User:admin", HOST, "orders"),
        ("User:mm2", HOST, "open"),
    }
    assert set(log.fetches()) == {("User:consumer", HOST, "orders"), ("User:mm2", HOST, "orders")}
    assert set(log.group_users()) == {("User:consumer", HOST)}
    assert "User:admin" in log.super_users and not log.super_users & {"User:producer", "User:consumer", "User:mm2"}
    assert log.lines == len(lines) > log.requests - 1 and log.untimed == 0
    assert log.newest is not None and log.since == log.oldest < log.newest


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_logger_at_info_writes_tells_nothing(version: str) -> None:
    """Refused requests only: the log has lines about requests, and no time from which on it tells."""
    log = told(*(one for one in (REAL / f"kafka-{version}.log").read_text().splitlines() if "] INFO " in one))
    assert log.requests >= 2 and log.newest is None and log.since is None
    assert not {*log.writes(), *log.fetches(), *log.group_users()}


@pytest.mark.parametrize(
    ("head", "at"),
    [
        ("[2026-11-28 01:02:03,456] DEBUG ", MOMENT),
        ("2026-11-28T01:02:03,456 DEBUG logger ", MOMENT),
        ("2026-11-28 01:02:03.456789 DEBUG ", MOMENT.replace(microsecond=456_789)),
        ("2026-11-28T01:02:03.456789123Z ", MOMENT.replace(microsecond=456_789)),
        ("2026-11-28 01:02:03 ", MOMENT.replace(microsecond=0)),
        ("[2026-11-28 06:32:03,456+05:30] DEBUG ", MOMENT),
        ("[2026-11-27T17:02:03.456 -0800] DEBUG ", MOMENT),
        ('{"time":"2026-11-28T01:02:03.456Z","level":"DEBUG","message":"', MOMENT),
        ("2026-11-28T09:09:09Z broker-1 kafka: [2026-11-28 01:02:03,456] DEBUG ", MOMENT),
        ("28 Nov 2026 01:02:03 DEBUG ", None),
        ("[2026-13-45 01:02:03,456] DEBUG ", None),
        ("", None),
    ],
)
def test_times_of_many_layouts(head: str, at: datetime | None) -> None:
    """With a zone or without one, which is taken as UTC; the time next to the message counts."""
    request = parse_line(line(head))
    assert request is not None and request.at == at
    log = told(line(head))
    assert log.untimed == (at is None) and list(log.writes()) == (
        [] if at is None else [("User:alice", "10.0.0.7", "orders")]
    )


@pytest.mark.parametrize(
    "who",
    ['User:CN=app one,OU=Payments, O="Acme, Inc",C=DE', "User:svc@REALM/x", "User:ünï ㋛", "ServiceAccount:a is b"],
)
def test_names_with_spaces_and_commas(who: str) -> None:
    """Names of certificates have them; the whole name is the principal."""
    request = parse_line(line(who=who))
    assert request is not None and request.principal == who and request.host == "10.0.0.7"


@pytest.mark.parametrize(
    "broken",
    [
        "",
        "\tat kafka.server.KafkaApis.handle(KafkaApis.scala:169)",
        line()[:90],
        line()[60:],
        "[2026-11-28 01:02:03,456] DEBUG Principal = ",
        "[2026-11-28 01:02:03,456] DEBUG Principal = User:alice is Confused operation = WRITE",
        "[2026-11-28 01:02:03,456] TRACE " + ALLOWED.format(who="User:alice"),
        "\x00\ufffd" * 30,
    ],
)
def test_lines_of_another_form_tell_nothing(broken: str) -> None:
    """Cut lines, stack traces, and lines at TRACE, which name rights that nobody used."""
    log = told(broken)
    assert parse_line(broken) is None and log.lines == 1 and log.requests == 0 and log.newest is None


@pytest.mark.parametrize(
    ("parts", "writes", "fetches", "members"),
    [
        ({}, 1, 0, 0),
        ({"Produce": "AddPartitionsToTxn"}, 1, 0, 0),
        ({"Topic:": "TransactionalId:"}, 0, 0, 0),
        ({"WRITE": "DESCRIBE", "Produce": "Metadata"}, 0, 0, 0),
        ({"WRITE": "READ", "Produce": "Fetch"}, 0, 1, 0),
        ({"WRITE": "READ", "Produce": "OffsetCommit"}, 0, 0, 0),
        ({"WRITE": "CLUSTER_ACTION", "Produce": "Fetch", "Topic:LITERAL:orders": "Cluster:LITERAL:c"}, 0, 0, 0),
        ({"WRITE": "READ", "Produce": "ShareFetch", "Topic:": "Group:"}, 0, 0, 1),
        ({"WRITE": "READ", "Produce": "ConsumerGroupHeartbeat", "Topic:": "Group:"}, 0, 0, 1),
        ({"WRITE": "DESCRIBE", "Produce": "OffsetFetch", "Topic:": "Group:"}, 0, 0, 0),
        ({"operation": "Operation", "WRITE": "Write"}, 1, 0, 0),
    ],
)
def test_which_requests_count(parts: dict[str, str], writes: int, fetches: int, members: int) -> None:
    """Writes to topics, clients' fetches, and the use of groups; a broker fetches by CLUSTER_ACTION."""
    log = told(line(**parts))
    assert (len(list(log.writes())), len(list(log.fetches())), len(list(log.group_users()))) == (
        writes,
        fetches,
        members,
    )


def test_a_name_that_looks_like_a_line_is_a_name() -> None:
    """A group may have any name: the first principal of a line counts."""
    forged = line(WRITE="READ", **{"Topic:LITERAL:orders": f"Group:LITERAL:{ALLOWED.format(who='User:ghost')}"})
    assert list(told(forged).writes()) == [] and list(told(forged).group_users()) == [("User:alice", "10.0.0.7")]


def test_the_window_ends_at_the_newest_line() -> None:
    """Whatever the order of the lines, and whatever time it is here: older lines than the window do not count."""
    at = [MOMENT - WINDOW - timedelta(seconds=1), MOMENT - WINDOW, MOMENT]
    lines = [line(f"[{moment:%Y-%m-%d %H:%M:%S},456] DEBUG ", f"User:{n}") for n, moment in enumerate(at)]
    for order in (lines, lines[::-1]):
        log = told(*order)
        assert {principal for principal, _, _ in log.writes()} == {"User:1", "User:2"}
        assert log.since == MOMENT - WINDOW and log.oldest == at[0]


def test_who_wrote_again_counts_with_the_newest_line() -> None:
    """Not with the oldest one."""
    old = f"[{MOMENT - WINDOW - WINDOW:%Y-%m-%d %H:%M:%S},456] DEBUG "
    assert len(list(told(line(), line(old)).writes())) == 1
