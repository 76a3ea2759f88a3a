"""What is read of the source's clients, and what is said of what cannot be read."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from kafka_dr.actions.readiness import clients
from kafka_dr.actions.readiness.clients import see_clients
from kafka_dr.domain.clients.inventory import SeenClients
from kafka_dr.domain.kafka_model.groups import ListedGroup
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.kafka_model.transactions import KnownTransaction
from kafka_dr.domain.readiness.observation import ConnectorView, GroupView, TopicView
from kafka_dr.errors import KafkaUnavailable
from kafka_dr.hooks.brokers.record import OffsetSpan
from kafka_dr.vocabulary import COMMITS_TOPIC

from tests.support.clusters import Cluster

UNAVAILABLE = KafkaUnavailable("reading failed", "not allowed", "grant the right")
MOVED = frozenset({"billing", "newer"})


def text(value: str) -> bytes:
    """A string as Kafka writes it."""
    return struct.pack(">h", len(value)) + value.encode()


def record(group: str, **sessions: int) -> tuple[bytes, bytes]:
    """Key and value of a group's record with these static members, session timeouts in milliseconds."""
    members = b"".join(
        text("m") + text(instance) + text("c") + text("h") + struct.pack(">iiii", 9, milliseconds, 0, 0)
        for instance, milliseconds in sessions.items()
    )
    head = struct.pack(">h", 3) + text("consumer") + struct.pack(">i", 1) + text("range") + text("m")
    return struct.pack(">h", 2) + text(group), head + struct.pack(">qi", 0, len(sessions)) + members


class Commits:
    """A reader of __consumer_offsets with these records; `asked` has the spans that were read."""

    def __init__(self, *records: tuple[bytes, bytes]) -> None:
        self.records, self.asked = records, list[OffsetSpan]()
        self.fails = False

    def spans(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetSpan]:
        """The whole log of each partition."""
        return dict.fromkeys(partitions, OffsetSpan(0, len(self.records)))

    def scan(
        self, spans: Mapping[TopicPartition, OffsetSpan], timeout: float, take: Callable[[Any], Any]
    ) -> Iterator[Any]:
        """The records of these spans."""
        if self.fails:
            raise UNAVAILABLE
        for span in spans.values():
            self.asked.append(span)
            for key, value in self.records[span.start : span.end]:
                yield take(SimpleNamespace(key=lambda k=key: k, value=lambda v=value: v))


@pytest.fixture
def source() -> Cluster:
    """A source with groups of several protocols."""
    cluster = Cluster("primary")
    cluster.partitions[COMMITS_TOPIC] = dict.fromkeys(range(8), 1)
    cluster.members = {"billing": 2, "newer": 1, "connect-files": 0}
    cluster.types = {"newer": "consumer"}
    cluster.other_groups = {"queue": ListedGroup("share", "share")}
    cluster.transactions = [KnownTransaction("pay", 1, "Ongoing")]
    return cluster


def seen(source: Cluster, reader: Commits | None = None, moved: frozenset[str] = MOVED, **request: Any) -> SeenClients:
    """What is read of the source."""
    deadlines = SimpleNamespace(drain_seconds=60.0, fence_seconds=60.0, max_fence_seconds=request.pop("limit", 600.0))
    in_drill, pinned = request.pop("in_drill", False), request.pop("pinned", False)
    run = SimpleNamespace(
        systems=SimpleNamespace(source=source, reader=lambda _: reader or Commits()),
        request=SimpleNamespace(deadlines=deadlines, source="primary", **({"exclude_groups": {}} | request)),
        in_drill=in_drill,
    )
    views = {
        "billing": GroupView("Stable", "classic", False, (), "range", ("i-1", "i-2")),
        "newer": GroupView("Stable", "consumer", False, (), "uniform", ("n-1",)),
        "connect-files": GroupView("Empty"),
        "counts": GroupView("Stable", "classic", False, ("c at h",) * 2, "stream", ("c-1",) * (2 if pinned else 1)),
    }
    view: Any = SimpleNamespace(
        brokers=(1,), groups=views, topics={"orders": TopicView("t", 1), "x": TopicView("u", 1)}
    )
    checkpoint = ConnectorView("c", "RUNNING", config={"groups.exclude": "connect-.*"})
    flow: Any = SimpleNamespace(checkpoint_connector=checkpoint, connectors=(checkpoint,))
    return see_clients(run, view, flow, {"orders": "primary.orders"}, moved | {"deleted since"})  # type: ignore[arg-type]


def test_groups_of_every_protocol_are_seen(source: Cluster) -> None:
    """Those that the filter leaves out as well, and which topics the flow mirrors."""
    found = seen(source)
    assert found.groups.keys() == {"billing", "newer", "connect-files", "queue"}
    assert (
        found.left_out == {"connect-files"} and found.moved == MOVED | {"deleted since"} and found.connectors == ("c",)
    )
    assert found.topics == {"orders": "primary.orders", "x": None}
    assert found.transactions == (KnownTransaction("pay", 1, "Ongoing"),)


def test_a_drill_names_no_client_of_production(source: Cluster) -> None:
    """Only groups that its own flow selects."""
    found = seen(source, in_drill=True)
    assert "connect-files" not in found.groups and found.transactions == ()


def test_transactional_ids_that_cannot_be_listed_are_unknown(source: Cluster) -> None:
    """Brokers before 3.0 have no such request."""
    source.transactions = UNAVAILABLE
    assert seen(source).transactions is None


def test_session_timeouts_come_from_settings_and_records(source: Cluster) -> None:
    """The newest record of a group counts; a member that it does not have is unknown."""
    source.sessions = {"newer": 45.0, "billing": 45.0}
    found = seen(source, Commits(record("billing", **{"i-1": 9_000}), record("billing", **{"i-1": 180_000})))
    assert found.staying == {"billing": {"i-1": 180.0, "i-2": None}, "newer": {"n-1": 45.0}}


@pytest.mark.parametrize(("pinned", "found"), [(False, {"c-1": 7.0, "": 9.0}), (True, {"c-1": 7.0})])
def test_members_of_streams_stay_too(source: Cluster, pinned: bool, found: dict[str, float]) -> None:
    """Those without group.instance.id under the empty name, if there are any."""
    reader = Commits(record("counts", **{"c-1": 7_000, "": 9_000}))
    moved = frozenset({"counts"})
    assert seen(source, reader, pinned=pinned, moved=moved).staying == {"counts": found}


def test_the_log_is_read_from_its_end(source: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """In windows that grow and do not overlap, until the group's record is found."""
    monkeypatch.setattr(clients, "_FIRST_WINDOW", 1)
    others = [record("other")] * 20
    reader = Commits(*others, record("billing", **{"i-1": 7_000, "i-2": 8_000}), *others[:5])
    assert seen(source, reader).staying["billing"] == {"i-1": 7.0, "i-2": 8.0}
    assert reader.asked == [OffsetSpan(25, 26), OffsetSpan(17, 25)]


@pytest.mark.parametrize("hidden", [False, True], ids=["refused", "topic not visible"])
def test_what_cannot_be_read_is_unknown(source: Cluster, hidden: bool) -> None:
    """Neither an error nor a short session."""
    reader = Commits(record("billing", **{"i-1": 7_000}))
    reader.fails = not hidden
    if hidden:
        del source.partitions[COMMITS_TOPIC]
    assert seen(source, reader).staying == {"billing": {"i-1": None, "i-2": None}, "newer": {"n-1": None}}


def test_excluded_groups_are_not_waited_for(source: Cluster) -> None:
    """Their static members may stay."""
    assert seen(source, exclude_groups={"billing": "batch"}).staying.keys() == {"newer"}


@pytest.mark.parametrize(("limit", "waits"), [(600.0, 120.0), (90.0, 90.0)])
def test_the_wait_ends_with_the_fence(source: Cluster, limit: float, waits: float) -> None:
    """drain_seconds and fence_seconds, at most max_fence_seconds."""
    assert seen(source, limit=limit).waits == waits
