"""The border where the Kafka client's settings and errors become ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager
from itertools import islice
from typing import Any, TypeVar

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, BrokerMetadata

from kafka_dr.errors import BadInput, KafkaUnavailable
from kafka_dr.hooks.redaction import one_line

_T = TypeVar("_T")

#: What a connection may set. Not here, so refused: whatever loads code, runs commands, fetches URLs, calls back or
#: turns checks off (plugin.library.paths, ssl.engine.*, ssl.providers, sasl.kerberos.kinit.cmd, *oauthbearer*,
#: enable.ssl.certificate.verification, *_cb).
ALLOWED_KEYS = frozenset(
    """
    bootstrap.servers client.id client.rack client.dns.lookup security.protocol
    sasl.mechanism sasl.mechanisms sasl.username sasl.password
    sasl.kerberos.service.name sasl.kerberos.principal sasl.kerberos.keytab
    ssl.ca.location ssl.ca.pem ssl.certificate.location ssl.certificate.pem
    ssl.key.location ssl.key.pem ssl.key.password
    ssl.keystore.location ssl.keystore.password ssl.cipher.suites ssl.curves.list ssl.sigalgs.list ssl.crl.location
    ssl.endpoint.identification.algorithm
    socket.timeout.ms socket.connection.setup.timeout.ms socket.keepalive.enable socket.nagle.disable
    connections.max.idle.ms reconnect.backoff.ms reconnect.backoff.max.ms retry.backoff.ms retry.backoff.max.ms
    broker.address.family broker.address.ttl metadata.max.age.ms topic.metadata.refresh.interval.ms
    message.max.bytes receive.message.max.bytes
    """.split()
)
_TRANSIENT = frozenset(
    getattr(KafkaError, name)
    for name in (
        "NOT_COORDINATOR COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE REQUEST_TIMED_OUT NETWORK_EXCEPTION "
        "NOT_CONTROLLER NOT_LEADER_FOR_PARTITION LEADER_NOT_AVAILABLE BROKER_NOT_AVAILABLE OFFSET_NOT_AVAILABLE "
        "UNSTABLE_OFFSET_COMMIT FENCED_LEADER_EPOCH UNKNOWN_LEADER_EPOCH "
        "_TIMED_OUT _TIMED_OUT_QUEUE _TRANSPORT _WAIT_COORD _WAIT_CACHE _ALL_BROKERS_DOWN"
    ).split()
)
#: librdkafka's own errors have the codes from -200 to here; a broker's unknown error is -1, all others are positive.
_LAST_OF_OUR_CLIENT = -100
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0


def client_config(config: Mapping[str, Any], alias: str) -> dict[str, Any]:
    """The part of a connection that a client of ours may use.

    Raises:
        BadInput: keys that are not allowed, values that are not plain, no bootstrap servers. Values are never echoed.
    """
    problems = [f"{key}: not allowed" for key in sorted(map(str, config)) if key not in ALLOWED_KEYS]
    problems += [
        f"{key}: not a text or number"
        for key in sorted(ALLOWED_KEYS & set(config))
        if not isinstance(config[key], (str, int, float))
    ]
    if not config.get("bootstrap.servers"):
        problems.append("bootstrap.servers: missing")
    if problems:
        raise BadInput(
            f"the Kafka connection of {alias} cannot be used", "; ".join(problems), "mend the Airflow connection"
        )
    # librdkafka logs to stderr, unasked and unmasked: what went wrong is in our errors instead.
    return {**config, "log_level": 0}


def in_service(admin: AdminClient, timeout: float) -> list[BrokerMetadata]:
    """List a cluster's brokers; KafkaException where it names none, as for seconds after a start or thaw.

    Who asks for more asks this first: librdkafka aborts the whole process where the answer to describe_cluster names no
    broker.
    """
    found = list(admin.list_topics(timeout=timeout).brokers.values())
    if not found:
        raise KafkaException(
            KafkaError(KafkaError._ALL_BROKERS_DOWN, "the cluster answers and names no broker in service")
        )
    return found


def describe_error(error: KafkaError) -> str:
    """A client error for people: its name first."""
    return f"{error.name()} ({one_line(error.str(), 1000)})"


@contextmanager
def kafka_border(alias: str, what: str, last_error: Callable[[], str] = str) -> Iterator[None]:
    """Turn the client's errors into KafkaUnavailable (or BadInput where the client refuses an argument).

    Args:
        last_error: what the client last complained about on its own; named too, as it is often the true reason.
    """
    from_broker = False
    try:
        yield
    except KafkaException as error:
        seen, from_broker = describe_error(error.args[0]), error.args[0].code() > _LAST_OF_OUR_CLIENT
    except FutureTimeout:
        seen = "no answer in time"
    except (TypeError, ValueError) as error:
        raise BadInput(
            f"{what} on {alias} was asked with something the Kafka client cannot use", one_line(error)
        ) from None
    else:
        return
    complaint = last_error()
    seen += f"; the client says: {complaint}" if complaint else ""
    unavailable = KafkaUnavailable(
        f"{what} on {alias} failed", seen, f"look at the brokers of {alias} and the rights of its connection"
    )
    unavailable.from_broker = from_broker
    raise unavailable


def outcome_of(future: Future[Any], timeout: float) -> Any:
    """A future's result, or the KafkaError that it ended with; never raises."""
    try:
        return future.result(timeout)
    except KafkaException as error:
        return error.args[0]
    except FutureTimeout:
        return KafkaError(KafkaError._TIMED_OUT, "no answer in time")


def raise_error(value: _T) -> _T:
    """A value as it is; raised where it is an error."""
    if isinstance(value, KafkaError):
        raise KafkaException(value)
    return value


def error_in(value: Any) -> KafkaError | None:
    """The error of an answer: of the whole, or of the first partition that has one."""
    if isinstance(value, KafkaError):
        return value
    partitions = value.topic_partitions or [] if isinstance(value, ConsumerGroupTopicPartitions) else []
    return next((p.error for p in partitions if p.error), None)


def is_transient(value: Any) -> bool:
    """Whether an answer is an error that asking again may end."""
    error = error_in(value)
    return error is not None and error.code() in _TRANSIENT


def is_error(value: Any, code: int) -> bool:
    """Whether an answer is this error."""
    return isinstance(value, KafkaError) and value.code() == code


def growing_pauses() -> Iterator[float]:
    """Growing pauses between repeats, without end: the deadline ends them."""
    pause = _FIRST_PAUSE
    while True:
        yield pause
        pause = min(pause * 2, _LONGEST_PAUSE)


def in_batches(items: list[_T], size: int) -> Iterator[list[_T]]:
    """Items in lists of at most this many."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch
