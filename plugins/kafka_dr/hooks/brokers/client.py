"""Checks the settings that an Airflow connection gives the Kafka client; turns its errors into Switchback's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager
from itertools import islice
from typing import Any, TypeVar

from confluent_kafka import OFFSET_INVALID, ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, BrokerMetadata, ListOffsetsResultInfo

from kafka_dr.domain.logins.client_login import TOKEN, mechanism_of
from kafka_dr.errors import BadInput, KafkaUnavailable
from kafka_dr.hooks.logins.kafka_login import usable_login
from kafka_dr.hooks.logins.token_issuer import NOT_ACQUIRED, explain_complaint
from kafka_dr.hooks.redaction import one_line

_T = TypeVar("_T")
_K = TypeVar("_K")

#: Keys that a connection can set; every other key is refused, among them keys that load code, run commands, read files
#: of others, set callbacks or turn checks off (plugin.library.paths, ssl.engine.*, ssl.providers,
#: sasl.kerberos.kinit.cmd, sasl.oauthbearer.assertion.*, enable.ssl.certificate.verification, *_cb).
ALLOWED_KEYS = frozenset(
    """
    bootstrap.servers client.id client.rack client.dns.lookup security.protocol
    sasl.mechanism sasl.mechanisms sasl.username sasl.password
    sasl.kerberos.service.name sasl.kerberos.principal sasl.kerberos.keytab
    sasl.oauthbearer.method sasl.oauthbearer.client.id sasl.oauthbearer.client.secret sasl.oauthbearer.scope
    sasl.oauthbearer.extensions sasl.oauthbearer.token.endpoint.url sasl.oauthbearer.sub.claim.name https.ca.location
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
#: Keys by which a client sends a secret to a URL: only for logins by token.
_TOKEN_KEYS = frozenset(key for key in ALLOWED_KEYS if key.startswith(("sasl.oauthbearer.", "https.")))
#: `_NOENT`: the client knows no leader of any of the partitions that a request is about.
_TRANSIENT = frozenset(
    getattr(KafkaError, name)
    for name in (
        "NOT_COORDINATOR COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE REQUEST_TIMED_OUT NETWORK_EXCEPTION "
        "NOT_CONTROLLER NOT_LEADER_FOR_PARTITION LEADER_NOT_AVAILABLE BROKER_NOT_AVAILABLE OFFSET_NOT_AVAILABLE "
        "UNSTABLE_OFFSET_COMMIT THROTTLING_QUOTA_EXCEEDED FENCED_LEADER_EPOCH UNKNOWN_LEADER_EPOCH "
        "_TIMED_OUT _TIMED_OUT_QUEUE _TRANSPORT _WAIT_COORD _WAIT_CACHE _ALL_BROKERS_DOWN _DESTROY_BROKER _NOENT"
    ).split()
)
#: How the client's complaint about a login that the brokers refuse begins; to wait would not help.
_WRONG_LOGIN = "_AUTHENTICATION"
#: librdkafka's own error codes go from -200 to this one. A broker's codes are above: -1 if unknown, else positive.
_LAST_CLIENT_ERROR = -100
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0


def client_config(config: Mapping[str, Any], alias: str) -> dict[str, Any]:
    """Check a connection's settings and return them as a librdkafka configuration.

    Raises:
        BadInput: a key is not allowed, a value is neither text nor number, bootstrap.servers is missing, or the
            installed Kafka clients cannot log in so. The message never shows values.
    """
    other_logins = _TOKEN_KEYS if mechanism_of(config) != TOKEN else frozenset()
    problems = [f"{key}: not allowed" for key in sorted(map(str, config)) if key not in ALLOWED_KEYS - other_logins]
    problems += [
        f"{key}: not a text or number"
        for key in sorted(ALLOWED_KEYS & set(config))
        if not isinstance(config[key], (str, int, float))
    ]
    if not config.get("bootstrap.servers"):
        problems.append("bootstrap.servers: missing")
    if problems:
        raise BadInput(
            f"the Kafka connection of {alias} cannot be used",
            "; ".join(problems),
            f"correct these keys in the extra of {alias}'s Airflow connection",
        )
    # No logging: librdkafka would log unredacted text to stderr. The reason of an error is in the error itself.
    return {**usable_login(config, alias), "log_level": 0}


def in_service(admin: AdminClient, timeout: float) -> list[BrokerMetadata]:
    """Return the live brokers of the cluster to which `admin` connects.

    Call this function before describe_cluster, because librdkafka aborts the whole process if the answer to
    describe_cluster names no broker.

    Raises:
        KafkaException: the answer names no broker, as happens in the first seconds after a broker's start.
    """
    brokers = list(admin.list_topics(timeout=timeout).brokers.values())
    if not brokers:
        raise KafkaException(KafkaError(KafkaError._ALL_BROKERS_DOWN, "the cluster answers, but lists no live broker"))
    return brokers


def describe_error(error: KafkaError) -> str:
    """Return a client's error as text: Kafka's name of the error, then its description without secrets."""
    # Else the word after `token:` would be hidden as if it were the token.
    text = error.str().replace(f"{NOT_ACQUIRED}:", f"{NOT_ACQUIRED} because:")
    return f"{error.name()} ({one_line(text, 1000)})"


@contextmanager
def kafka_border(alias: str, what: str, last_error: Callable[[], str] = str) -> Iterator[None]:
    """Inside this context, turn the client's errors into KafkaUnavailable, or BadInput for an unusable argument.

    Args:
        alias: the cluster's name in the topology, for the message.
        what: the request, for the message.
        last_error: returns the client's last connection error, or empty text; the message shows this error, which is
            often the true reason.
    """
    from_broker, may_pass = False, True
    try:
        yield
    except KafkaException as error:
        seen, from_broker = describe_error(error.args[0]), error.args[0].code() > _LAST_CLIENT_ERROR
        may_pass = is_transient(error.args[0])
    except FutureTimeout:
        seen = "no answer in time"
    except (TypeError, ValueError) as error:
        raise BadInput(
            f"{what} on {alias} failed: the Kafka client cannot use an argument",
            one_line(error),
            f"correct the name or setting that the client refuses: in the params, in the topology, or in the Airflow"
            f" connection of {alias}",
        ) from None
    else:
        return
    complaint = last_error()
    without_token = explain_complaint(alias, what, complaint)
    if without_token and not from_broker:
        raise without_token
    seen += f"; the client reports: {complaint}" if complaint else ""
    unavailable = KafkaUnavailable(
        f"{what} on {alias} failed",
        seen,
        f"run kafka-broker-api-versions.sh against the bootstrap servers of {alias}, on the machine where the task ran;"
        f" if the brokers answer, compare the rights of the connection's principal on {alias} with runbooks/rights.md",
        may_pass and (without_token is not None or not complaint.startswith(_WRONG_LOGIN)),
    )
    unavailable.from_broker = from_broker
    raise unavailable


def outcome_of(future: Future[Any], timeout: float) -> Any:
    """Return a future's result, or the KafkaError with which the future failed; `_TIMED_OUT` at the timeout."""
    try:
        return future.result(timeout)
    except KafkaException as error:
        return error.args[0]
    except FutureTimeout:
        return KafkaError(KafkaError._TIMED_OUT, "no answer in time")


def raise_error(value: _T) -> _T:
    """Return the value unchanged; if the value is a KafkaError, raise KafkaException with this error."""
    if isinstance(value, KafkaError):
        raise KafkaException(value)
    return value


def error_in(value: Any) -> KafkaError | None:
    """Return the error in an answer; None if the answer has no error.

    The error is the answer itself if it is a KafkaError. In an answer about a group's positions, the error is that of
    the first partition that has one. An answer about a partition whose leader has just gone holds neither an offset nor
    an error: its offset is librdkafka's -1001, which must never pass for a log end.
    """
    if isinstance(value, KafkaError):
        return value
    if isinstance(value, ListOffsetsResultInfo) and value.offset <= OFFSET_INVALID:
        return KafkaError(KafkaError.LEADER_NOT_AVAILABLE, "the answer holds no offset")
    partitions = value.topic_partitions or [] if isinstance(value, ConsumerGroupTopicPartitions) else []
    return next((p.error for p in partitions if p.error), None)


def is_transient(value: Any) -> bool:
    """Whether an answer, or a partition in it, has an error that may be gone if the request is sent again."""
    error = error_in(value)
    return error is not None and error.code() in _TRANSIENT


def is_error(value: Any, code: int | None) -> bool:
    """Whether an answer is a KafkaError with this code; no answer is, if the code is None."""
    return isinstance(value, KafkaError) and value.code() == code


def growing_pauses() -> Iterator[float]:
    """Yield the pauses between repeated requests, in seconds, doubled up to 5 s; endless: the caller stops."""
    pause = _FIRST_PAUSE
    while True:
        yield pause
        pause = min(pause * 2, _LONGEST_PAUSE)


def send_in_batches(
    items: list[_T], size: int, send: Callable[[list[_T]], Mapping[_K, Future[Any]]]
) -> Iterator[tuple[_K, Future[Any]]]:
    """Send one request per batch of at most `size` items, all at once; yield what each is about with its future."""
    requests = [send(batch) for batch in in_batches(items, size)]
    for request in requests:
        yield from request.items()


def in_batches(items: list[_T], size: int) -> Iterator[list[_T]]:
    """Yield the items in their order, in lists of at most `size` items."""
    remaining = iter(items)
    while batch := list(islice(remaining, size)):
        yield batch
