"""Every client of the source is named by its kind, with what happens to it and what its owner must do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kafka_dr.domain.clients import kinds
from kafka_dr.domain.clients.inventory import (
    ClientsOfKind,
    SeenClients,
    clients_markdown,
    internal_topics,
    list_clients,
    list_recorded_clients,
    missing_state,
    staying_beyond,
    staying_unknown,
)
from kafka_dr.domain.clients.logged_clients import LoggedClients
from kafka_dr.domain.kafka_model.groups import ListedGroup
from kafka_dr.domain.kafka_model.transactions import KnownTransaction

PAGE = Path(__file__).parents[5] / "runbooks" / "kinds_of_clients.md"
CLASSIC, NEWER = ListedGroup("consumer", "classic"), ListedGroup("consumer", "consumer")
CHANGELOG, REPARTITION = "count-orders-counts-changelog", "count-orders-by-key-repartition"
ALL = SeenClients(
    groups={
        "billing": CLASSIC,
        "new": NEWER,
        "old broker": ListedGroup("consumer"),
        "set by hand": ListedGroup("", "classic"),
        "count-orders": CLASSIC,
        "stateless": CLASSIC,
        "count-new": ListedGroup("streams", "streams"),
        "queue": ListedGroup("share", "share"),
        "connect-files": CLASSIC,
        "connect-moved": CLASSIC,
        "workers": ListedGroup("connect", "classic"),
        "schema-registry": ListedGroup("sr", "classic"),
        "console-consumer-7": CLASSIC,
        "reads nothing here": CLASSIC,
        "odd": ListedGroup("acme", "classic"),
    },
    moved=frozenset(
        {"billing", "new", "old broker", "set by hand", "count-orders", "stateless", "connect-moved"},
    ),
    left_out=frozenset({"connect-files", "console-consumer-7", "queue"}),
    topics={"orders": "orders", CHANGELOG: CHANGELOG, REPARTITION: None, "_schemas": "_schemas"},
    assignors={"billing": "range", "stateless": "stream"},
    staying={"billing": {"i-1": 45.0, "i-2": None}, "stateless": {"": 30.0}},
    waits=120.0,
    transactions=(
        KnownTransaction("pay-1", 1, "Ongoing"),
        KnownTransaction("pay-2", 2, "CompleteCommit"),
        KnownTransaction("__switchback-check", 3, "Empty"),
    ),
    connectors=("flow-source", "flow-checkpoint"),
)
FOUND = {
    kinds.CLASSIC: (2, ()),
    kinds.CONSUMER: (1, ()),
    kinds.NEVER_ACTIVE: (1, ("set by hand",)),
    kinds.STREAMS: (2, (f"count-orders ({REPARTITION}: not mirrored; {CHANGELOG}: mirrored)", "stateless")),
    kinds.STREAMS_GROUPS: (1, ("count-new",)),
    kinds.SHARE: (1, ("queue",)),
    kinds.SINKS: (1, ("connect-files",)),
    kinds.MOVED_SINKS: (1, ("connect-moved",)),
    kinds.WORKERS: (1, ("workers",)),
    kinds.SCHEMA_REGISTRIES: (2, ("schema-registry", "_schemas: mirrored")),
    kinds.MIRROR_MAKER: (2, ("flow-source", "flow-checkpoint")),
    kinds.STAYING: (
        2,
        ("billing (session timeout of i-1: 45 s, i-2: unknown)", "stateless (session timeout of its members: 30 s)"),
    ),
    kinds.TRANSACTIONAL: (2, ("pay-1 (open now)", "pay-2")),
    kinds.LEFT_OUT: (1, ("console-consumer-7",)),
    kinds.NO_POSITION: (1, ("reads nothing here",)),
    kinds.OTHER: (1, ("odd (protocol acme)",)),
    kinds.WITHOUT_GROUP: (None, ()),
    kinds.WITHOUT_ENTRY: (None, ()),
}


def by_kind(*clients: ClientsOfKind) -> dict[str, ClientsOfKind]:
    """The clients by the name of their kind."""
    return {one.kind: one for one in clients}


def test_every_kind_is_named() -> None:
    """With its number and its names; the groups that move as they are have theirs in the table of groups."""
    found = list_clients(ALL)
    assert {one.kind: (one.count, one.names) for one in found} == {kind.name: seen for kind, seen in FOUND.items()}
    assert all(one.happens and one.owner and one.fate for one in found)


def test_every_group_has_one_kind() -> None:
    """None is dropped, none is named twice."""
    topics_and_members = 1 + 2 + 2 + 2
    assert sum(one.count or 0 for one in list_clients(ALL)) == len(ALL.groups) + topics_and_members


@pytest.mark.parametrize("kind", kinds.KINDS, ids=lambda kind: kind.name)
def test_the_page_has_a_heading_for_each_kind(kind: kinds.ClientKind) -> None:
    """Under the name that the plan gives it."""
    assert f"\n## {kind.name}\n" in PAGE.read_text(encoding="utf-8")


def test_what_no_client_can_see_is_said_where_nothing_is_found() -> None:
    """Also on a source without any group."""
    found = by_kind(*list_clients(SeenClients()))
    assert set(found) == {kinds.WITHOUT_GROUP.name, kinds.WITHOUT_ENTRY.name}
    assert {one.fate for one in found.values()} == {kinds.UNSEEN}


COVERED = "3 brokers, from 2026-11-27 01:00:00 to 2026-11-28 01:00:00 by the brokers' clocks"


def test_what_the_authorizer_logs_show_is_named() -> None:
    """With its number, what covers it, and what its owner must do; readers are not moved, writers are fenced."""
    logged = LoggedClients(("User:flink from h",), ("User:any from h", "User:root from h"), ("User:root",), COVERED)
    found = by_kind(*list_clients(SeenClients(logged=logged)))
    readers, writers = found[kinds.WITHOUT_GROUP.name], found[kinds.WITHOUT_ENTRY.name]
    assert (readers.count, readers.names, readers.fate) == (1, logged.readers, kinds.LEFT)
    assert COVERED in readers.happens and "translate_positions" in readers.owner
    assert (writers.count, writers.names, writers.fate) == (2, logged.writers, kinds.LEFT)
    assert COVERED in writers.happens and "no ACL entry stops" in writers.happens and "stop" in writers.owner
    held = by_kind(*list_clients(SeenClients(logged=replace(logged, unstopped=()))))[kinds.WITHOUT_ENTRY.name]
    assert held.fate == kinds.MOVED and "no ACL entry stops" not in held.happens + held.owner


def test_where_the_logs_show_nobody_the_period_is_said() -> None:
    """None in that period, which is not none: a client that was silent is not in the logs."""
    found = by_kind(*list_clients(SeenClients(logged=LoggedClients(covered=COVERED))))
    for one in (found[kinds.WITHOUT_GROUP.name], found[kinds.WITHOUT_ENTRY.name]):
        assert (one.count, one.names) == (0, ()) and one.fate != kinds.UNSEEN
        assert one.happens.startswith("No such ") and COVERED in one.happens and "do not show" in one.happens


@pytest.mark.parametrize("writers", [(), ("User:root from h (no ACL entry stops it)",)])
def test_logs_that_tell_too_little_leave_both_kinds_unknown(writers: tuple[str, ...]) -> None:
    """Never none: what is wrong with the logs is said, and writers that were seen nevertheless are named."""
    logged = LoggedClients((), writers, (), problems=("/a.log is empty; do this", "/b.log is old; do that"))
    found = by_kind(*list_clients(SeenClients(logged=logged)))
    for one in (found[kinds.WITHOUT_GROUP.name], found[kinds.WITHOUT_ENTRY.name]):
        assert one.count is None and one.fate == kinds.UNSEEN
        assert "unknown: /a.log is empty; do this; /b.log is old; do that." in one.happens
    assert found[kinds.WITHOUT_ENTRY.name].names == writers
    assert f"there are {'more' if writers else 'any'} is unknown" in found[kinds.WITHOUT_ENTRY.name].happens


def test_a_topology_without_logs_is_said_to_name_none() -> None:
    """And what an unplanned failover, which reads no log, says does not blame the topology."""
    for one in by_kind(*list_clients(SeenClients())).values():
        assert "authorizer_logs" in one.happens
    seen = SeenClients(logged=LoggedClients(("User:x from h",), covered=COVERED))
    for name in (kinds.WITHOUT_GROUP.name, kinds.WITHOUT_ENTRY.name):
        one = by_kind(*list_recorded_clients(seen))[name]
        assert one.count is None and one.fate == kinds.UNSEEN and one.names == ()
        assert "an unplanned failover reads no authorizer log" in one.happens and "authorizer_logs" not in one.happens


def test_transactional_ids_that_could_not_be_listed_are_unknown() -> None:
    """Not none."""
    found = by_kind(*list_clients(replace(ALL, transactions=None)))[kinds.TRANSACTIONAL.name]
    assert found.count is None and found.names == ()


@pytest.mark.parametrize(
    ("groups", "owner"),
    [
        (["count"], "count"),
        (["count-orders", "count"], "count-orders"),
        (["count", "count-orders-by"], "count"),
        (["orders"], None),
        (["count-orders-a"], None),
    ],
)
def test_an_internal_topic_belongs_to_the_longest_name_that_fits(groups: list[str], owner: str | None) -> None:
    """Application ids may begin with each other."""
    expected = {owner: ["count-orders-a-changelog"]} if owner else {}
    assert internal_topics(groups, ["count-orders-a-changelog", "count-orders", "orders-changelog-x"]) == expected


def test_state_that_an_application_does_not_find_is_named() -> None:
    """Topics that the flow does not mirror, and topics that it mirrors under another name; not of groups that stay."""
    assert missing_state(ALL) == {"count-orders": [REPARTITION]}
    prefixed: dict[str, Any] = {"topics": {CHANGELOG: f"primary.{CHANGELOG}"}}
    assert missing_state(replace(ALL, **prefixed)) == {"count-orders": [CHANGELOG]}
    assert missing_state(replace(ALL, moved=frozenset())) == {}


@pytest.mark.parametrize(("seconds", "beyond"), [(120.0, {}), (120.1, {"g": 120.1}), (None, {})])
def test_a_member_may_stay_as_long_as_the_drain_waits(seconds: float | None, beyond: dict[str, float]) -> None:
    """Its longest known session timeout counts."""
    seen = SeenClients(staying={"g": {"i-1": 1.0, "i-2": seconds}}, waits=120.0)
    assert staying_beyond(seen) == beyond
    assert staying_unknown(seen) == (["g"] if seconds is None else [])


def test_what_the_recorder_does_not_record_is_said() -> None:
    """Of a source that does not answer, the recorded groups move; the other kinds are unknown."""
    seen = SeenClients({"billing": ListedGroup("consumer")}, frozenset({"billing"}), topics={"_schemas": "x"})
    found = by_kind(*list_recorded_clients(seen))
    assert found[kinds.CLASSIC.name].count == 1 and found[kinds.NOT_RECORDED.name].fate == kinds.UNSEEN
    assert found[kinds.SCHEMA_REGISTRIES.name].names == ("_schemas: on the target x",)


def test_the_table_cuts_names_not_kinds() -> None:
    """Twenty names a kind, the number of the others; what a name holds cannot leave its cell."""
    many = tuple(f"queue-{n:02}" for n in range(25))
    seen = SeenClients({**dict.fromkeys(many, ListedGroup("share", "share")), "x|<b>": ListedGroup("connect")})
    lines = clients_markdown([vars(one) for one in list_clients(seen)])
    share = next(line for line in lines if line.startswith(f"| {kinds.SHARE.name} | 25 |"))
    assert "queue-19 and 5 more" in share and "queue-20" not in share
    assert sum(line.startswith("| ") for line in lines) == 2 + 4 and not any("<b>" in line for line in lines)
    assert clients_markdown([]) == []
