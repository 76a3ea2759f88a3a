"""MirrorMaker 2 in dedicated mode, looked at in a worker's place."""

from __future__ import annotations

import json
from typing import Any

import pytest
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import BadInput, DeadlinePassed, HookUnavailable
from kafka_dr.hooks.connect import dedicated_mirror_maker
from kafka_dr.hooks.connect.dedicated_mirror_maker import DedicatedMirrorMaker

FLOW = "west->east"


class Hook:
    """A stop hook whose process ends so many looks after it was asked; None for never."""

    def __init__(self, ends_after: int | None = 0) -> None:
        self.asked: list[str] = []
        self._ends_after, self.away = ends_after, False

    def running(self, flow: str, timeout: float) -> int:
        """How many run now."""
        if self.away:
            raise HookUnavailable("the hook did not do it", "no connection", "look at it")
        if not self.asked or self._ends_after is None:
            return 1
        self._ends_after -= 1
        return int(self._ends_after >= 0)

    def stop(self, flow: str) -> int:
        """Told, and done later."""
        self.asked.append(flow)
        return 1


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pause between looks."""
    monkeypatch.setattr(dedicated_mirror_maker, "_POLL_SECONDS", 0.001)


def made(hook: Hook | None = None, records: list[Any] = [], **settings: str) -> DedicatedMirrorMaker:
    """The flow west->east; settings are written with double underscores for dots."""
    stated = {key.replace("__", "."): value for key, value in settings.items()}
    return DedicatedMirrorMaker(
        "west",
        "east",
        ("MirrorSourceConnector", "MirrorCheckpointConnector"),
        stated,
        hook or Hook(),
        lambda topic: [r[1:] for r in records if r[0] == topic],
    )


def kept(
    topic: str,
    offset: int | None,
    connector: str = "MirrorSourceConnector",
    internal: str = "mm2-offsets.west.internal",
) -> tuple[str, bytes, bytes | None]:
    """One record of MirrorMaker 2's topic of offsets."""
    key = json.dumps([connector, {"cluster": "west", "partition": 0, "topic": topic}]).encode()
    return internal, key, None if offset is None else json.dumps({"offset": offset}).encode()


def test_a_process_runs_both_connectors() -> None:
    """By the hook's word; each process counts as a task."""
    worker = made()
    assert worker.existing(["other", "MirrorSourceConnector"]) == ["MirrorSourceConnector"]
    assert worker.status("MirrorSourceConnector").running and not worker.status("MirrorSourceConnector").stopped


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


def test_it_cannot_be_resumed() -> None:
    """The hook only stops."""
    with pytest.raises(BadInput, match="runs in dedicated mode"):
        made().resume("MirrorSourceConnector")


def test_settings_are_those_stated_and_what_the_mode_brings() -> None:
    """Aliases and converters are the mode's own, unless stated otherwise."""
    config = made(topics="a.*", key__converter="Other").config("MirrorSourceConnector")
    assert (config["topics"], config["key.converter"], config["source.cluster.alias"]) == ("a.*", "Other", "west")
    assert config["header.converter"].endswith("ByteArrayConverter")


def test_offsets_are_the_last_kept_of_the_source_connector() -> None:
    """Later records win, a tombstone empties, others' and foreign records are left out."""
    foreign = [
        ("mm2-offsets.west.internal", key, value)
        for key, value in (
            (None, b"x"),
            (b"not json", None),
            (b'["MirrorSourceConnector"]', b"{}"),
            (b"7", b'{"offset": 1}'),
            (b"[" * 100_000, b"{}"),
        )
    ]
    records = [
        kept("orders", 4),
        kept("gone", 9),
        *foreign,
        kept("orders", 7),
        kept("gone", None),
        kept("other", 1, "MirrorCheckpointConnector"),
    ]
    found = made(records=records).offsets("MirrorSourceConnector").of("west")
    assert found == {TopicPartition("orders", 0): 7, TopicPartition("gone", 0): None}


def test_offsets_are_read_where_they_are_stated_to_be() -> None:
    """The topic's name is a setting."""
    worker = made(records=[kept("orders", 4, internal="elsewhere")], offset__storage__topic="elsewhere")
    assert worker.offsets("MirrorSourceConnector").of("west") == {TopicPartition("orders", 0): 4}
