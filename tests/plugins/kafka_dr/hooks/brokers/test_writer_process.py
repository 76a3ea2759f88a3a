"""The writer's own process answers as the writer does, ends its work when its caller dies, and exits."""

from __future__ import annotations

import io
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import BadInput, KafkaUnavailable, NotReady
from kafka_dr.hooks.brokers.record_reader import RecordReader
from kafka_dr.hooks.brokers.transactional_writer import Outgoing, RecordReplay
from kafka_dr.hooks.brokers.writer_process import ReplayProcess, serve_requests
from kafka_dr.installation import python_path

LOG = TopicPartition("log", 0)
CALLER = """
import json, os, sys, time
from kafka_dr.hooks.brokers.transactional_writer import Outgoing
from kafka_dr.hooks.brokers.writer_process import ReplayProcess
writer = ReplayProcess({"bootstrap.servers": sys.argv[1]}, "east", sys.argv[2], timeout=10)
writer.fence()
writer._send(writer._process, ("write", ([Outgoing(sys.argv[2], 0, b"k", b"handed over")],)))
os.kill(os.getpid(), 9)
"""


@pytest.fixture(scope="module")
def brokers() -> Iterator[str]:
    """A mock broker."""
    producer = Producer({"bootstrap.servers": "ignored", "test.mock.num.brokers": "1", "log_level": 0})
    yield ",".join(f"{b.host}:{b.port}" for b in producer.list_topics(timeout=10).brokers.values())


@pytest.fixture
def writer(brokers: str) -> Iterator[ReplayProcess]:
    """The writer under test."""
    made = ReplayProcess({"bootstrap.servers": brokers}, "east", "replay", timeout=10)
    yield made
    made.close()


def values(brokers: str, topic: str) -> list[bytes | None]:
    """What is in a topic's first partition."""
    reader = RecordReader({"bootstrap.servers": brokers})
    return [record.value for record in reader.scan(reader.spans([TopicPartition(topic, 0)]))]


def test_it_writes_what_it_is_given(writer: ReplayProcess, brokers: str) -> None:
    """One transaction after another; closed, it is gone, and begins anew when it is asked."""
    writer.fence()
    for value in (b"1", b"2"):
        writer.write([Outgoing(*LOG, b"k", value)])
    pid = writer._process.pid
    writer.close()
    assert not Path(f"/proc/{pid}").exists()
    writer.fence()
    writer.write([Outgoing(*LOG, b"k", b"3")])
    assert values(brokers, "log") == [b"1", b"2", b"3"]


def test_its_errors_are_the_writers(writer: ReplayProcess) -> None:
    """With what was seen and what to do."""
    writer.fence()
    with pytest.raises(BadInput, match="'log' of east"):
        writer.write([Outgoing("log", "first", b"k", b"v")])


def test_nothing_is_handed_over_that_is_not_allowed(writer: ReplayProcess, brokers: str) -> None:
    """Before the fence, or when the caller says no."""
    with pytest.raises(BadInput, match="not initialized before writing"):
        writer.write([Outgoing("none", 0, b"k", b"v")])
    writer.fence()

    def refuse() -> None:
        raise NotReady("the lease is gone")

    with pytest.raises(NotReady, match="the lease is gone"):
        writer.write([Outgoing("none", 0, b"k", b"v")], refuse)
    writer.write([Outgoing("none", 0, b"k", b"w")])
    assert values(brokers, "none") == [b"w"]


def test_what_was_handed_over_is_written_when_the_caller_dies(brokers: str) -> None:
    """The process ends the transaction, and then itself."""
    dead = subprocess.run(
        [sys.executable, "-c", CALLER, brokers, "orphaned"],
        env={**os.environ, "PYTHONPATH": python_path()},
        check=False,
    )
    assert dead.returncode == -signal.SIGKILL
    ends_at = time.monotonic() + 20
    while values(brokers, "orphaned") != [b"handed over"]:
        assert time.monotonic() < ends_at
        time.sleep(0.1)


def test_a_process_that_is_killed_is_told_and_replaced(writer: ReplayProcess) -> None:
    """Asking again starts another one."""
    writer.fence()
    writer._process.kill()
    writer._process.wait()
    with pytest.raises(KafkaUnavailable, match="has ended, or did not answer"):
        writer.write([Outgoing(*LOG, b"k", b"v")])
    writer.fence()


def test_a_process_that_hangs_is_given_up(writer: ReplayProcess) -> None:
    """It is killed, so that it writes nothing later."""
    writer.fence()
    frozen = writer._process
    writer._patience = 0.3
    frozen.send_signal(signal.SIGSTOP)
    with pytest.raises(KafkaUnavailable, match="no answer within"):
        writer.write([Outgoing(*LOG, b"k", b"v")])
    assert frozen.poll() == -signal.SIGKILL


def test_half_a_message_is_none(brokers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller that dies while it hands over has handed over nothing."""
    asked = []
    monkeypatch.setattr(RecordReplay, "fence", lambda _: asked.append("fence"))
    monkeypatch.setattr(RecordReplay, "write", lambda *_: asked.append("write"))
    whole = pickle.dumps(({"bootstrap.servers": brokers}, "east", "replay")) + pickle.dumps(("fence", ()))
    half = pickle.dumps(("write", ([Outgoing("t", 0, b"k", b"v" * 100)],)))[:-20]
    serve_requests(io.BytesIO(whole + half), answers := io.BytesIO())
    assert asked == ["fence"] and pickle.loads(answers.getvalue()) is None


def test_secrets_are_on_no_command_line_and_settings_are_checked_at_once() -> None:
    """The connection travels through a pipe; a bad one starts no process."""
    with pytest.raises(BadInput, match="plugin.library.paths"):
        ReplayProcess({"bootstrap.servers": "b:1", "plugin.library.paths": "x"}, "east", "replay")
    assert "password" not in repr(
        ReplayProcess({"bootstrap.servers": "b:1", "sasl.password": "password"}, "east", "replay")
    )
