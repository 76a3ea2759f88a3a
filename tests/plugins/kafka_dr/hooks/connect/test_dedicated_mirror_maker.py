"""MirrorMaker 2 in dedicated mode, looked at in a worker's place."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.mirror_maker.offset_records import OffsetRecord, offset_key, offset_value
from kafka_dr.errors import BadInput, DeadlinePassed, HookUnavailable, NotReady
from kafka_dr.hooks.connect import dedicated_mirror_maker
from kafka_dr.hooks.connect.dedicated_mirror_maker import DedicatedMirrorMaker

from tests.support.offsets.stored_topic import StoredTopic

FLOW, SOURCE = "west->east", "MirrorSourceConnector"
ORDERS = TopicPartition("orders", 0)


class Hook:
    """A stop hook whose process ends so many looks after it was asked; None for never.

    A process that it is asked to start runs after `starts_after` looks; None: it starts none.
    """

    def __init__(self, ends_after: int | None = 0, starts_after: int | None = None) -> None:
        self.asked: list[str] = []
        self.started: list[str] = []
        self.kept: dict[str, str] | None = None
        self._ends_after, self.away, self._starts_after = ends_after, False, starts_after

    def running(self, flow: str, timeout: float) -> int:
        """How many run now."""
        if self.away:
            raise HookUnavailable("the hook did not do it", "no connection", "look at it")
        if self.started and self._starts_after is not None:
            self._starts_after -= 1
            return int(self._starts_after < 0)
        if not self.asked or self._ends_after is None:
            return 1
        self._ends_after -= 1
        return int(self._ends_after >= 0)

    def stop(self, flow: str) -> int:
        """Told, and done later."""
        self.asked.append(flow)
        return 1

    def settings(self, flow: str) -> dict[str, str] | None:
        """With which settings it starts next; None: it does not say."""
        return self.kept

    def starts(self, flow: str, timeout: float = 10.0) -> bool:
        """Whether it starts processes."""
        return self._starts_after is not None

    def start(self, flow: str) -> int:
        """Told, and done later."""
        self.started.append(flow)
        return 0


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pause between looks."""
    monkeypatch.setattr(dedicated_mirror_maker, "_POLL_SECONDS", 0.001)


def made(
    hook: Hook | None = None,
    topic: StoredTopic | None = None,
    members: Callable[[], int] | None = None,
    **settings: str,
) -> DedicatedMirrorMaker:
    """The flow west->east; settings are written with double underscores for dots."""
    stated = {key.replace("__", "."): value for key, value in settings.items()}
    names, stored = (SOURCE, "MirrorCheckpointConnector"), (topic or StoredTopic()).client()
    group = None if members is None else "workers"
    return DedicatedMirrorMaker(
        *("west", "east", names, stated),
        hook or Hook(),  # type: ignore[arg-type]
        stored,
        group,
        lambda asked: members() if members and asked == group else -1,
    )


def stopped(starts_after: int | None = None) -> Hook:
    """A hook whose process has ended."""
    hook = Hook(starts_after=starts_after)
    hook.asked.append(FLOW)
    return hook


def test_a_process_runs_both_connectors() -> None:
    """By the hook's word; each process counts as a task."""
    worker = made()
    assert worker.existing(["other", "MirrorSourceConnector"]) == ["MirrorSourceConnector"]
    assert worker.status("MirrorSourceConnector").running and not worker.status("MirrorSourceConnector").stopped


def test_settings_are_those_that_the_hook_reads_where_people_keep_them() -> None:
    """In place of the topology's; a secret that the hook shows by mistake is hidden."""
    hook = Hook()
    worker = made(hook, topics="old", source__consumer__isolation__level="read_committed")
    assert worker.with_kept_settings() is None
    hook.kept = {"topics": "new", "sasl.jaas.config": "p"}
    kept = worker.with_kept_settings()
    assert kept is not None and worker.config(SOURCE)["topics"] == "old"
    config = kept.config(SOURCE)
    assert (config["topics"], config["source.cluster.alias"]) == ("new", "west")
    assert config["source.consumer.isolation.level"] == "read_committed" and config["sasl.jaas.config"] == "[hidden]"


@pytest.mark.parametrize("looks", [0, 3])
def test_it_is_asked_once_and_waited_for(looks: int) -> None:
    """For both connectors together: the second finds it gone."""
    hook = Hook(ends_after=looks)
    worker = made(hook)
    assert worker.stop("MirrorSourceConnector").stopped and worker.stop("MirrorCheckpointConnector").stopped
    assert hook.asked == [FLOW]


def test_one_that_does_not_end_is_told_at_the_deadline() -> None:
    """With what runs."""
    with pytest.raises(DeadlinePassed, match="west->east did not stop within 0.01 s") as told:
        made(Hook(ends_after=None)).stop("MirrorSourceConnector", deadline=0.01)
    assert "RUNNING" in told.value.seen


def test_a_silent_hook_proves_nothing() -> None:
    """It is no stopped flow."""
    hook = Hook()
    hook.away = True
    with pytest.raises(HookUnavailable):
        made(hook).stop("MirrorSourceConnector")


def test_a_hook_that_only_stops_resumes_nothing() -> None:
    """It is never asked to start: it may not know the request."""
    hook = stopped()
    assert not made(hook).sets_offsets(SOURCE)
    with pytest.raises(BadInput, match="runs in dedicated mode"):
        made(hook).resume(SOURCE)
    assert hook.started == []


@pytest.mark.parametrize("looks", [0, 3])
def test_a_hook_that_starts_is_asked_once_and_waited_for(looks: int) -> None:
    """For both connectors together: the second finds them running."""
    hook = stopped(starts_after=looks)
    worker = made(hook)
    assert worker.sets_offsets(SOURCE)
    assert worker.resume(SOURCE).running and worker.resume("MirrorCheckpointConnector").running
    assert hook.started == [FLOW]


def test_one_that_does_not_start_is_told_at_the_deadline() -> None:
    """With what was seen."""
    with pytest.raises(DeadlinePassed, match="west->east did not start within 0.01 s") as told:
        made(stopped(starts_after=1_000_000)).resume(SOURCE, deadline=0.01)
    assert "STOPPED" in told.value.seen


def test_settings_are_those_stated_and_what_the_mode_brings() -> None:
    """Aliases and converters are the mode's own, unless stated otherwise."""
    config = made(topics="a.*", key__converter="Other").config("MirrorSourceConnector")
    assert (config["topics"], config["key.converter"], config["source.cluster.alias"]) == ("a.*", "Other", "west")
    assert config["header.converter"].endswith("ByteArrayConverter")


def kept(offset: int) -> StoredTopic:
    """A topic with one offset of the flow."""
    return StoredTopic(1, [OffsetRecord(0, offset_key(SOURCE, "west", ORDERS), offset_value(offset))])


def test_offsets_are_set_in_the_topic_while_nothing_runs() -> None:
    """Read back, and only those that differ are written."""
    topic = kept(4)
    worker = made(stopped(), topic)
    assert worker.offsets(SOURCE).of("west") == {ORDERS: 4}
    assert worker.change_offsets(SOURCE, "west", {ORDERS: 9}).of("west") == {ORDERS: 9}
    worker.change_offsets(SOURCE, "west", {ORDERS: 9})
    assert topic.requests == 1 and worker.offsets(SOURCE).of("west") == {ORDERS: 9}


def test_a_member_that_was_killed_is_waited_for() -> None:
    """Until its session times out it might be alive, whatever the hook says."""
    topic, looks = kept(4), [1, 1, 0]
    made(stopped(), topic, lambda: looks.pop(0)).change_offsets(SOURCE, "west", {ORDERS: 9})
    assert looks == [] and topic.requests == 1


@pytest.mark.parametrize(
    ("running", "members", "problem"),
    [
        (True, None, ""),
        (True, 1, ""),
        (False, 0, ""),
        (True, 0, "1 processes run by the stop hook, but their worker group workers has no member"),
    ],
)
def test_a_group_without_members_beside_a_process_is_not_its_group(
    running: bool, members: int | None, problem: str
) -> None:
    """Later it would seem to prove that the process has ended."""
    count = None if members is None else lambda: members
    assert made(Hook() if running else stopped(), kept(4), count).offsets_problem(SOURCE) == problem


def test_a_topic_that_cannot_be_used_is_a_problem() -> None:
    """Before a process is stopped for it."""
    assert "does not exist" in made(topic=StoredTopic(0)).offsets_problem(SOURCE)


def test_no_offset_is_changed_while_a_member_stays() -> None:
    """A process runs of which the hook does not know."""
    topic = kept(4)
    with pytest.raises(DeadlinePassed, match="worker group of west->east still has members"):
        made(stopped(), topic, lambda: 1).change_offsets(SOURCE, "west", {ORDERS: 9}, timeout=0.01)
    assert topic.requests == 0


@pytest.mark.parametrize(
    ("hook", "alias", "last", "error", "words"),
    [
        (Hook(), "west", 9, NotReady, "only while no process of it runs"),
        (stopped(), "east", 9, BadInput, "stores offsets under another alias"),
        (stopped(), "west", -1, BadInput, "must be 0 or more"),
        (stopped(), "west", 1.5, BadInput, "must be 0 or more"),
    ],
)
def test_no_offset_is_changed_otherwise(hook: Hook, alias: str, last: int, error: type, words: str) -> None:
    """Before a record is written."""
    topic = kept(4)
    with pytest.raises(error, match=words):
        made(hook, topic).change_offsets(SOURCE, alias, {ORDERS: last})
    assert topic.requests == 0
