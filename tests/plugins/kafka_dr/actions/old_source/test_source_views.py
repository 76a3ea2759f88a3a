"""How the source looks from three sides: what is told apart, what is never claimed, and that nothing outlasts
its time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from kafka_dr.actions.old_source import source_views
from kafka_dr.actions.old_source.source_views import (
    Pace,
    confirm_source_state,
    newest_heartbeats,
    pace_of,
    view_from_application,
    view_from_connect,
    view_from_here,
)
from kafka_dr.config.deadlines import Deadlines
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.loss.source_lost import Look, Sight, SourceState
from kafka_dr.domain.mirror_maker.mirror_records import Heartbeat, encode_heartbeat
from kafka_dr.domain.mirror_maker.naming import NamingSpec, naming_of
from kafka_dr.errors import ConnectUnavailable, HookUnavailable, KafkaUnavailable, LeaseLost, ReadBackFailed, Refusal
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.brokers.record import Record, Tail
from kafka_dr.hooks.brokers.record_writer import RecordWriter, WriteAccepted, WriteRefused, WriteUnknown
from kafka_dr.hooks.connect.connector_state import ConnectorStatus
from kafka_dr.hooks.site.source_probe import ApplicationsView
from kafka_dr.vocabulary import Entry, Step

from tests.support.clusters import Message
from tests.support.facts import tell

SECONDS = 1.0
GONE = KafkaUnavailable("reading metadata on primary failed", "_TIMED_OUT (no answer)")


@pytest.fixture
def site(make_bench: Callable[..., Any]) -> Any:
    """A bench whose source has two brokers, and where everything is well."""
    bench = make_bench(
        dag_id="unplanned_failover",
        deadlines={"confirm_seconds": 1.5, "slow_seconds": 0.3},
        source_probe={"connection": "app"},
    )
    source = bench.clusters["primary"]
    source.broker_ids, source.partitions["__switchback_probe"] = [1, 2], {0: 1, 1: 2}
    bench.probe_answers = {0: WriteAccepted(7, 1), 1: WriteAccepted(7, 2)}
    return bench


def timed(view: Callable[..., Look], procedure: Any, seconds: float = SECONDS) -> Look:
    """A look that must not outlast its time."""
    began = time.monotonic()
    look = view(procedure, seconds)
    assert time.monotonic() - began < seconds + 0.7, look
    return look


def here(site: Any, seconds: float = SECONDS) -> Look:
    """A look from here."""
    return timed(view_from_here, site.procedure(), seconds)


# -- from here ---------------------------------------------------------------------------------------------------


def test_a_source_that_takes_writes_answers(site: Any) -> None:
    """Metadata and an acknowledged write."""
    look = here(site)
    assert (look.view, look.sight) == ("here", Sight.ANSWERS) and "accepted a write" in look.words
    assert look.at.endswith("+00:00")


@pytest.mark.parametrize(
    ("answers", "sight", "words"),
    [
        (
            {0: WriteRefused("TOPIC_AUTHORIZATION_FAILED", True, 1), 1: WriteUnknown("_TIMED_OUT")},
            Sight.ANSWERS,
            "with an authorization error",
        ),
        ({0: WriteUnknown("NOT_ENOUGH_REPLICAS"), 1: WriteAccepted(1, 2)}, Sight.ANSWERS, "accepted a write"),
        (
            {0: WriteUnknown("NOT_ENOUGH_REPLICAS"), 1: WriteUnknown("KAFKA_STORAGE_ERROR")},
            Sight.REFUSES_WRITES,
            "KAFKA_STORAGE_ERROR, NOT_ENOUGH_REPLICAS",
        ),
        (
            {0: WriteRefused("NOT_ENOUGH_REPLICAS", False, 1), 1: WriteUnknown("LEADER_NOT_AVAILABLE")},
            Sight.REFUSES_WRITES,
            "NOT_ENOUGH_REPLICAS",
        ),
    ],
)
def test_what_leaders_answer_to_writes(site: Any, answers: dict[int, Any], sight: Sight, words: str) -> None:
    """One leader that takes writes is enough; a refusal for want of rights comes from a living broker; any other
    answer is no acknowledgement.
    """
    site.probe_answers = answers
    look = here(site)
    assert look.sight is sight and words in look.words


def test_without_any_leader_no_write_can_be_taken(site: Any) -> None:
    """It answers questions, and nobody leads: it refuses writes, and none is tried."""
    site.clusters["primary"].partitions["__switchback_probe"] = {0: None, 1: None}
    assert here(site).sight is Sight.REFUSES_WRITES and site.probed == []


def test_only_leaders_are_written_to(site: Any) -> None:
    """A partition whose broker is down takes nothing away from one that lives."""
    site.clusters["primary"].partitions["__switchback_probe"] = {0: None, 1: 2}
    assert here(site).sight is Sight.ANSWERS and site.probed == [1]


def test_the_probes_topic_is_made_where_it_is_missing(site: Any) -> None:
    """A topic of our own, with a partition on each broker; no other topic is touched."""
    source = site.clusters["primary"]
    del source.partitions["__switchback_probe"]
    assert here(site).sight is Sight.ANSWERS
    assert set(source.partitions) == {"orders", "__switchback_probe"} and sorted(site.probed) == [0, 1]


@pytest.mark.parametrize(
    "error",
    [
        KafkaUnavailable("creating topic failed", "TOPIC_AUTHORIZATION_FAILED"),
        ReadBackFailed("it should have 2 partitions"),
    ],
)
def test_where_the_topic_cannot_be_made_describing_itself_counts(
    site: Any, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """The look says that no write was tried."""
    source = site.clusters["primary"]
    del source.partitions["__switchback_probe"]

    def create_topic(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(source, "create_topic", create_topic)
    look = here(site)
    assert look.sight is Sight.ANSWERS and "no write was tried" in look.words and site.probed == []


def test_metadata_that_come_late_are_slow(site: Any) -> None:
    """Later than slow_seconds, within the look."""
    site.clusters["primary"].answers_after = 0.45
    look = here(site)
    assert look.sight is Sight.SLOW and site.probed == []


def test_a_write_that_is_acknowledged_late_is_slow(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The write counts as well as the metadata."""

    def probe(topic: str, partition: int, timeout: float) -> WriteAccepted:
        time.sleep(0.45)
        return WriteAccepted(1, 1)

    monkeypatch.setattr(site, "writer", lambda alias: SimpleNamespace(probe=probe))
    look = here(site)
    assert look.sight is Sight.SLOW and "accepted a write after" in look.words


def test_a_source_that_says_nothing_is_gone(site: Any) -> None:
    """Nothing within the time allowed, while the target answers."""
    site.clusters["primary"].away = GONE
    look = here(site)
    assert look.sight is Sight.GONE and "_TIMED_OUT" in look.words


@pytest.mark.parametrize("away", [True, False], ids=["away", "hangs"])
def test_when_the_target_is_silent_too_nobody_is_gone(site: Any, monkeypatch: pytest.MonkeyPatch, away: bool) -> None:
    """It may be our own network: this view could not look."""
    site.clusters["primary"].away = GONE
    if away:
        site.clusters["standby"].away = GONE
    else:
        monkeypatch.setattr(site.clusters["standby"], "metadata", lambda timeout: time.sleep(5))
    look = here(site)
    assert look.sight is Sight.UNKNOWN and "the orchestrator's own network" in look.words


@pytest.mark.parametrize(("complaints", "from_broker", "sight"), [
    ({"_AUTHENTICATION"}, False, Sight.ANSWERS),
    ({"_TRANSPORT", "SASL_AUTHENTICATION_FAILED"}, False, Sight.ANSWERS),
    ({"_SSL"}, False, Sight.UNKNOWN),
    ({"_TRANSPORT", "_ALL_BROKERS_DOWN"}, False, Sight.GONE),
    (set(), True, Sight.ANSWERS),
])  # fmt: skip
def test_a_broker_that_does_not_let_us_in_is_alive(
    site: Any, complaints: set[str], from_broker: bool, sight: Sight
) -> None:
    """A login or a request that a broker turned down is an answer; a certificate that does not fit says nothing."""
    source = site.clusters["primary"]
    source.away = KafkaUnavailable("asking failed", "it said no")
    source.away.from_broker, source.complained = from_broker, frozenset(complaints)
    assert here(site).sight is sight


def test_a_client_that_hangs_is_left_behind(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as in the look-up of a name: the look ends all the same."""
    monkeypatch.setattr(site.clusters["primary"], "metadata", lambda timeout: time.sleep(5))
    look = here(site, 0.5)
    assert look.sight is Sight.GONE and look.words == "no answer within 0.5 s"


def test_a_write_that_hangs_is_no_acknowledgement(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It described itself, so it is not gone; it did not take the write in time."""
    monkeypatch.setattr(site, "writer", lambda alias: SimpleNamespace(probe=lambda *_, timeout: time.sleep(5)))
    look = here(site, 0.7)
    assert look.sight is Sight.REFUSES_WRITES and "acknowledged no write" in look.words


def test_a_connection_that_cannot_be_used_is_no_view(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is wrong on our side says nothing about the source."""
    monkeypatch.setattr(
        site,
        "cluster",
        lambda alias: KafkaCluster(alias, {"bootstrap.servers": "x:1", "ssl.ca": 1}),
    )
    assert here(site).sight is Sight.UNKNOWN


def test_black_holes_end_in_time(site: Any, monkeypatch: pytest.MonkeyPatch, hanging: str) -> None:
    """The real client and writer at addresses where connecting hangs, and where nobody speaks."""
    real = lambda alias: (
        KafkaCluster(alias, {"bootstrap.servers": hanging}) if alias == "primary" else site.clusters[alias]
    )
    monkeypatch.setattr(site, "cluster", real)
    monkeypatch.setattr(site, "writer", lambda alias: RecordWriter({"bootstrap.servers": hanging}, alias))
    look = here(site)
    assert look.sight is Sight.GONE and "_T" in look.words


def test_metadata_without_a_writer_that_gets_through(site: Any, monkeypatch: pytest.MonkeyPatch, hanging: str) -> None:
    """A source that describes itself while writes go into a black hole refuses writes."""
    monkeypatch.setattr(site, "writer", lambda alias: RecordWriter({"bootstrap.servers": hanging}, alias))
    assert here(site).sight is Sight.REFUSES_WRITES


# -- from Connect ------------------------------------------------------------------------------------------------


@pytest.fixture
def beats(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Heartbeats as each reading finds them; the last stay."""
    script: list[Any] = [[1_000, 2_000]]

    def read(*_: Any) -> Any:
        found = script.pop(0) if len(script) > 1 else script[0]
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(source_views, "newest_heartbeats", read)
    monkeypatch.setattr(source_views, "_BEAT_SECONDS", 0.05)
    return script


def connect(site: Any, seconds: float = 1.2) -> Look:
    """A look from Connect; two heartbeats a second apart are often enough."""
    return timed(view_from_connect, site.procedure(), seconds)


@pytest.mark.parametrize(("script", "sight", "words"), [
    ([[1_000, 2_000], [1_000, 2_000], [2_000, 3_000]], Sight.ANSWERS, "a moment ago"),
    ([[1_000, 2_000]], Sight.GONE, "since 1970-01-01T00:00:02+00:00"),
    ([[1_000, 2_000], []], Sight.GONE, "no heartbeat"),
    ([[1_000, 61_000]], Sight.UNKNOWN, "too rare"),
    ([[2_000]], Sight.UNKNOWN, "too rare"),
    ([[]], Sight.UNKNOWN, "too rare"),
    ([KafkaUnavailable("reading failed", "gone")], Sight.UNKNOWN, "reading failed"),
])  # fmt: skip
def test_heartbeats_tell(site: Any, beats: list[Any], script: list[Any], sight: Sight, words: str) -> None:
    """A newer one than at the beginning proves life; silence counts only where they were coming; what cannot be read
    says nothing.
    """
    beats[:] = script
    look = connect(site)
    assert look.sight is sight and words in look.words


@pytest.mark.parametrize(("tasks", "script", "sight"), [
    ({0: "FAILED", 1: "RUNNING"}, [[1_000, 2_000], [2_000, 3_000]], Sight.ANSWERS),
    ({0: "FAILED", 1: "RUNNING"}, [[1_000, 2_000]], Sight.UNKNOWN),
    ({0: "FAILED"}, [[1_000, 2_000], [2_000, 3_000]], Sight.UNKNOWN),
    ({}, [[1_000, 2_000]], Sight.UNKNOWN),
])  # fmt: skip
def test_tasks_that_do_not_run_look_at_nothing(
    site: Any, beats: list[Any], monkeypatch: pytest.MonkeyPatch, tasks: dict[int, str], script: list[Any], sight: Sight
) -> None:
    """A failed task's silence is its own; its trace is told."""
    beats[:] = script
    status = ConnectorStatus("p.source", "RUNNING", tasks, {"task 0": "TimeoutException"})
    monkeypatch.setattr(site.workers["standby"], "status", lambda name, timeout: status)
    look = connect(site)
    assert look.sight is sight and (sight is Sight.ANSWERS or "TimeoutException" in look.words)


@pytest.mark.parametrize(("script", "sight", "words"), [
    ([[1_000, 2_000], [2_000, 3_000]], Sight.ANSWERS, "a moment ago"),
    ([[1_000, 2_000]], Sight.UNKNOWN, "the states of tasks are unknown"),
    ([[2_000]], Sight.UNKNOWN, "too rare"),
])  # fmt: skip
def test_in_dedicated_mode_only_a_heartbeat_that_arrives_tells(
    make_bench: Any, beats: list[Any], script: list[Any], sight: Sight, words: str
) -> None:
    """It proves life whoever mirrored it; with no worker to ask, silence may be MirrorMaker 2's own."""
    flow = {
        "source": "primary",
        "target": "standby",
        "stop_hook": "hook",
        "connectors": {"source": "p.source", "checkpoint": "p.checkpoint"},
    }
    beats[:] = script
    look = connect(make_bench(dag_id="unplanned_failover", flows=[flow]))
    assert look.sight is sight and words in look.words


def test_a_stopped_connector_is_no_view(site: Any, beats: list[Any]) -> None:
    """Nobody reads the source, so nothing is known of it."""
    site.workers["standby"].states["p.source"] = "STOPPED"
    look = connect(site)
    assert look.sight is Sight.UNKNOWN and "no task of MirrorMaker 2 reads the source" in look.words


def test_a_worker_that_is_down_is_no_view(site: Any, beats: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Connect itself did not answer, or hangs."""

    def down(name: str, timeout: float) -> None:
        raise ConnectUnavailable("the request GET /connectors to Connect failed", "no connection")

    monkeypatch.setattr(site.workers["standby"], "status", down)
    assert connect(site).sight is Sight.UNKNOWN
    monkeypatch.setattr(site.workers["standby"], "status", lambda name, timeout: time.sleep(5))
    assert connect(site, 0.4).words == "Connect did not answer in time"


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("copies", [1, 3])
def test_heartbeats_are_those_that_came_from_the_source(there: bool, copies: int) -> None:
    """The mirrored topic, under its name on the target, and its newest records' own times; of copies by several
    connectors each once.
    """
    topic = TopicPartition("east.heartbeats", 0)
    records = tuple(
        Record(*topic, n, 5, False, *encode_heartbeat(Heartbeat("west", "east", at)), ())
        for n, at in enumerate([*[2_000] * copies, *[1_000] * copies])
    )
    asked: list[Any] = []
    target = SimpleNamespace(
        topics=lambda names, timeout: (
            asked.append(names) or ({names[0]: SimpleNamespace(partitions={0: 1})} if there else {})
        )
    )
    reader = SimpleNamespace(
        last_records=lambda partitions, take, n, timeout: {
            tp: Tail(tuple(take(Message(record)) for record in records[:n]), 0, 2) for tp in partitions
        }
    )
    procedure = SimpleNamespace(
        naming=naming_of(NamingSpec(policy="identity"), ("east", "west")),
        flow=SimpleNamespace(source="east", connectors=SimpleNamespace(source=("s",) * copies)),
        request=SimpleNamespace(target="west"),
        systems=SimpleNamespace(target=target, reader=lambda alias: reader),
    )
    assert newest_heartbeats(procedure, 1.0) == ([1_000, 2_000] if there else []) and asked == [["east.heartbeats"]]


# -- from the application ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("seen", "sight"), [
    (ApplicationsView(True, True), Sight.ANSWERS),
    (ApplicationsView(True, None), Sight.ANSWERS),
    (ApplicationsView(True, False, "no acks"), Sight.REFUSES_WRITES),
    (ApplicationsView(False), Sight.GONE),
    (HookUnavailable("the request GET /source to the probe failed", "HTTP 500"), Sight.UNKNOWN),
])  # fmt: skip
def test_what_the_application_sees(site: Any, monkeypatch: pytest.MonkeyPatch, seen: Any, sight: Sight) -> None:
    """Its words are taken; a hook that is down says nothing about the source."""

    def view(timeout: float) -> ApplicationsView:
        if isinstance(seen, Exception):
            raise seen
        return seen

    site.source_probe = SimpleNamespace(view=view, shown=str)
    assert timed(view_from_application, site.procedure()).sight is sight


def test_an_application_that_hangs_or_offers_no_probe_is_no_view(
    site: Any, make_bench: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither says anything about the source."""
    site.source_probe = SimpleNamespace(view=lambda timeout: time.sleep(5))
    assert timed(view_from_application, site.procedure(), 0.3).sight is Sight.UNKNOWN
    assert timed(view_from_application, make_bench().procedure()).words == "the topology names no source_probe"


# -- all together ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("confirm", "slow", "pace"),
    [
        (15.0, 3.0, Pace(3, 5.0)),
        (60.0, 3.0, Pace(13, 60 / 13)),
        (3.0, 3.0, Pace(3, 4.5)),
        (100_000.0, 1.0, Pace(100, 1_000.0)),
    ],
)
def test_the_pace_fills_the_window(confirm: float, slow: float, pace: Pace) -> None:
    """Three rounds at least, none shorter than a slow answer may take, and together the window."""
    assert pace_of(Deadlines(confirm_seconds=confirm, slow_seconds=slow)) == pace


@pytest.fixture
def views(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Sight]]:
    """What Connect and the application see in each round; the last stays."""
    script = {"connect": [Sight.UNKNOWN], "application": [Sight.UNKNOWN]}

    def view(name: str) -> Callable[..., Look]:
        return lambda procedure, seconds: Look(
            name, script[name].pop(0) if len(script[name]) > 1 else script[name][0], "seen", 0.0, ""
        )

    for name in script:
        monkeypatch.setattr(source_views, f"view_from_{name}", view(name))
    return script


def test_a_lost_source_is_seen_lost_over_the_whole_window(site: Any, views: dict[str, list[Sight]]) -> None:
    """Round after round, for as long as stated and not longer, with a line of progress each."""
    site.clusters["primary"].away = GONE
    lines: list[str] = []
    began = time.monotonic()
    verdict = confirm_source_state(site.opened(), lines.append)
    assert 1.3 < time.monotonic() - began < 2.5
    assert verdict.state is SourceState.LOST and verdict.rounds == 3 and verdict.views[0].saw == {"gone": 3}
    assert [line.split(":")[0] for line in lines] == ["Round 1 of 3", "Round 2 of 3", "Round 3 of 3"]
    assert "from here: gone" in lines[0]


def test_black_holes_all_around_cost_no_more_than_the_window(
    site: Any, views: dict[str, list[Sight]], monkeypatch: pytest.MonkeyPatch, hanging: str
) -> None:
    """The source's addresses swallow everything: no round outlasts its time."""
    real = lambda alias: (
        KafkaCluster(alias, {"bootstrap.servers": hanging}) if alias == "primary" else site.clusters[alias]
    )
    monkeypatch.setattr(site, "cluster", real)
    began = time.monotonic()
    assert confirm_source_state(site.opened()).state is SourceState.LOST
    assert time.monotonic() - began < 3.0


def test_whoever_sees_it_answer_ends_the_window(site: Any, views: dict[str, list[Sight]]) -> None:
    """No more rounds: nothing can make it lost any more."""
    site.clusters["primary"].away = GONE
    views["connect"][:] = [Sight.GONE, Sight.ANSWERS, Sight.GONE]
    verdict = confirm_source_state(site.opened())
    assert verdict.state is SourceState.ANSWERS and verdict.rounds == 2


def test_a_source_that_refuses_writes_is_looked_at_over_the_whole_window(
    site: Any, views: dict[str, list[Sight]]
) -> None:
    """Its quick answers do not shorten the window."""
    site.probe_answers = {0: WriteUnknown("NOT_ENOUGH_REPLICAS"), 1: WriteUnknown("NOT_ENOUGH_REPLICAS")}
    began = time.monotonic()
    verdict = confirm_source_state(site.opened())
    assert verdict.state is SourceState.REFUSES_WRITES and verdict.views[0].saw == {"refuses_writes": 3}
    assert time.monotonic() - began > 0.9


def test_an_abort_ends_the_window(site: Any, views: dict[str, list[Sight]]) -> None:
    """The next round is not begun."""
    site.clusters["primary"].away = GONE
    procedure = site.opened()
    with pytest.raises(Refusal, match="carol aborted"):
        confirm_source_state(
            procedure,
            lambda line: tell(procedure, Step.ABORT_PROCEDURE, Entry.ABORT, {"by": "carol", "reason": "no"}),
        )


def test_without_the_lease_nothing_is_written(site: Any, views: dict[str, list[Sight]]) -> None:
    """Each round asks for the lease before it may write its probes."""
    procedure = site.opened()
    site.journal.release_lease(procedure.pair, procedure.id, procedure.lease.epoch, "failed")
    with pytest.raises(LeaseLost):
        confirm_source_state(procedure)
    assert site.probed == []
