"""The transactional writer on librdkafka's mock brokers: one at a time, all or nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import BadInput, KafkaUnavailable, NotReady, Superseded
from kafka_dr.hooks.brokers.record import OffsetSpan
from kafka_dr.hooks.brokers.record_reader import RecordReader
from kafka_dr.hooks.brokers.transactional_writer import Outgoing, RecordReplay


@pytest.fixture(scope="module")
def brokers() -> Iterator[str]:
    """A mock broker."""
    producer = Producer({"bootstrap.servers": "ignored", "test.mock.num.brokers": "1", "log_level": 0})
    yield ",".join(f"{b.host}:{b.port}" for b in producer.list_topics(timeout=10).brokers.values())


@pytest.fixture
def writer(brokers: str) -> Iterator[RecordReplay]:
    """The writer under test, with its transactional id."""
    made = RecordReplay({"bootstrap.servers": brokers}, "east", "replay", timeout=10)
    made.fence()
    yield made
    made.close()


def refused_with(code: int, fatal: bool = False) -> type:
    """A client whose commit the cluster answers with an error."""

    class Refused:
        """Takes everything but the commit."""

        aborted = 0

        def begin_transaction(self) -> None:
            """Begin."""

        def produce(self, *_: object, **__: object) -> None:
            """Take."""

        def flush(self, _: float) -> int:
            """Nothing is left."""
            return 0

        def purge(self) -> None:
            """Forget."""

        def poll(self, _: float) -> int:
            """No callback waits."""
            return 0

        def commit_transaction(self, _: float) -> None:
            """Refuse."""
            raise KafkaException(KafkaError(code, fatal=fatal))

        def abort_transaction(self, _: float) -> None:
            """A client that had a fatal error can do nothing any more."""
            type(self).aborted += 1
            if fatal:
                raise KafkaException(KafkaError(KafkaError._FATAL, fatal=True))

    return Refused


def test_records_are_written_as_they_are(writer: RecordReplay, brokers: str) -> None:
    """Null and empty, headers in order, timestamps; and no timestamp is the time of writing."""
    writer.write(
        [
            Outgoing("odd", 0, None, b"", (("h", None), ("h", b"")), 5),
            Outgoing("odd", 1, b"", None, (("\u00fc", b"\xff"),)),
        ]
    )
    read = RecordReader({"bootstrap.servers": brokers}).ranges(
        {TopicPartition("odd", p): OffsetSpan(0, 1) for p in range(2)}
    )
    read = {tp.partition: record for tp, (record,) in read.items()}
    assert (read[0].key, read[0].value, read[0].headers, read[0].timestamp) == (None, b"", (("h", None), ("h", b"")), 5)
    assert (read[1].key, read[1].value, read[1].headers) == (b"", None, (("\u00fc", b"\xff"),))
    assert abs(read[1].timestamp / 1000 - time.time()) < 60


def test_several_transactions_follow_each_other(writer: RecordReplay, brokers: str) -> None:
    """In order."""
    for number in range(3):
        writer.write([Outgoing("more", 0, b"k", b"%d" % number)])
    reader = RecordReader({"bootstrap.servers": brokers})
    assert [record.value for record in reader.scan(reader.spans([TopicPartition("more", 0)]))] == [b"0", b"1", b"2"]


def test_nothing_is_written_before_the_id_was_taken(brokers: str) -> None:
    """Without the fence an older writer could still be at work."""
    with pytest.raises(BadInput, match="not initialized before writing"):
        RecordReplay({"bootstrap.servers": brokers}, "east", "other").write([Outgoing("t", 0, b"k", b"v")])


def test_what_is_not_allowed_any_more_is_not_committed(writer: RecordReplay) -> None:
    """The error is the caller's own, and the writer goes on afterwards."""
    asked = []

    def refuse() -> None:
        asked.append(1)
        raise NotReady("the lease is gone")

    with pytest.raises(NotReady, match="the lease is gone"):
        writer.write([Outgoing("t", 0, b"k", b"v")], refuse)
    writer.write([Outgoing("t", 0, b"k", b"w")], lambda: asked.append(2))
    assert asked == [1, 2]


@pytest.mark.parametrize(
    "code",
    [
        KafkaError._FENCED,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
        KafkaError.INVALID_TXN_STATE,
    ],
)
def test_a_fenced_commit_means_another_process(writer: RecordReplay, code: int) -> None:
    """It is no fault of the cluster, and nothing to try again with this writer."""
    client = refused_with(code, fatal=True)()
    writer._producer = client
    with pytest.raises(Superseded, match="another process uses the transactional id replay"):
        writer.write([Outgoing("t", 0, b"k", b"v")])
    assert writer._producer is None and client.aborted == 1


def raised(error: KafkaError) -> None:
    """As the client does when it is polled."""
    raise KafkaException(error)


def complained(cause: KafkaError | None) -> None:
    """As Python does where an exception was set in a callback."""
    try:
        raised(cause)
    except KafkaException as error:
        raise SystemError("returned a result with an exception set") from (error if cause else None)


@pytest.mark.parametrize("how", ["told", "raised"])
def test_a_reason_that_was_not_told_yet_is_asked_for(writer: RecordReplay, how: str) -> None:
    """The client refuses a record before its callback has said why; asked, it calls that or raises the reason."""
    client, reason = refused_with(KafkaError._FATAL)(), KafkaError(KafkaError.INVALID_PRODUCER_EPOCH, fatal=True)
    client.poll = lambda _: writer._complain(reason) if how == "told" else raised(reason)
    writer._producer = client
    with pytest.raises(Superseded, match="INVALID_PRODUCER_EPOCH"):
        writer.write([Outgoing("t", 0, b"k", b"v")])


@pytest.mark.parametrize("call", ["flush", "commit_transaction"])
def test_a_fatal_error_among_callbacks_is_that_error(writer: RecordReplay, call: str) -> None:
    """Python wraps a callback's exception in a complaint; any other complaint is no answer of the cluster."""
    writer._producer = refused_with(KafkaError._STATE)()
    setattr(writer._producer, call, lambda _: complained(KafkaError(KafkaError._FENCED, fatal=True)))
    with pytest.raises(Superseded, match="_FENCED"):
        writer.write([Outgoing("t", 0, b"k", b"v")])
    writer._producer = refused_with(KafkaError._STATE)()
    setattr(writer._producer, call, lambda _: complained(None))
    with pytest.raises(SystemError, match="an exception set"):
        writer.write([Outgoing("t", 0, b"k", b"v")])


def test_a_fatal_error_is_the_reason_of_what_follows(writer: RecordReplay) -> None:
    """The client says at once why it can do nothing any more, and afterwards only that it cannot."""
    writer._complain(KafkaError(KafkaError._TRANSPORT))
    writer._complain(KafkaError(KafkaError._FENCED, fatal=True))
    writer._complain(KafkaError(KafkaError._FATAL, fatal=True))
    writer._producer = refused_with(KafkaError._STATE)()
    with pytest.raises(Superseded, match="_FENCED"):
        writer.write([Outgoing("t", 0, b"k", b"v")])
    writer.fence()
    writer.write([Outgoing("t", 0, b"k", b"v")])


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (KafkaError.MSG_SIZE_TOO_LARGE, NotReady),
        (KafkaError.INVALID_TIMESTAMP, NotReady),
        (KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, KafkaUnavailable),
        (KafkaError._TIMED_OUT, KafkaUnavailable),
    ],
)
def test_what_the_cluster_says_again_is_a_refusal(writer: RecordReplay, code: int, error: type[Exception]) -> None:
    """Size and time are for people to settle; rights and silence may pass."""
    client = refused_with(code)()
    writer._producer = client
    with pytest.raises(error) as raised:
        writer.write([Outgoing("t", 0, b"k", b"v")])
    assert client.aborted == 1 and getattr(raised.value, "from_broker", None) in (None, code > 0)


def test_a_record_that_the_client_cannot_take_is_named(writer: RecordReplay) -> None:
    """A partition is a number."""
    with pytest.raises(BadInput, match="'t' of east"):
        writer.write([Outgoing("t", "first", b"k", b"v")])


def test_nobody_there_is_told_in_time(hanging: str) -> None:
    """Taking the id ends by its own deadline."""
    began = time.monotonic()
    with pytest.raises(KafkaUnavailable, match="initializing transactions on east failed"):
        RecordReplay({"bootstrap.servers": hanging}, "east", "replay", timeout=1).fence()
    assert time.monotonic() - began < 10


def test_settings_that_no_connection_may_set_are_refused() -> None:
    """As with every client of ours."""
    with pytest.raises(BadInput, match="plugin.library.paths"):
        RecordReplay({"bootstrap.servers": "b:1", "plugin.library.paths": "x"}, "east", "replay")
