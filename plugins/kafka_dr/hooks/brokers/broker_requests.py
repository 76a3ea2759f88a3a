"""Sends a request to each broker of a cluster by itself, which librdkafka cannot do."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import Any, ClassVar, TypeVar

from kafka_dr.domain.drill.scope import DrillScope
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import BadInput, KafkaUnavailable
from kafka_dr.hooks.brokers.client import client_config, growing_pauses
from kafka_dr.hooks.brokers.descriptions import Metadata
from kafka_dr.hooks.logins.python_client import for_python
from kafka_dr.hooks.redaction import one_line

with warnings.catch_warnings():
    # Each of its hundred messages would warn in the log of each task.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaAdminClient
    from kafka.errors import (
        AuthorizationError,
        IncompatibleBrokerVersion,
        KafkaError,
        KafkaTimeoutError,
        UnknownTopicOrPartitionError,
        for_code,
    )
    from kafka.future import Future
    from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest

T = TypeVar("T")
#: In place of a broker's id: any broker.
_ANY_BROKER = -1
#: Newer versions answer about several keys, in another form.
_FIND_COORDINATOR = 3

# kafka-python logs its whole configuration, with passwords.
logging.getLogger("kafka").setLevel(logging.CRITICAL)

REQUEST_SECONDS = 10.0
#: Limit of all tries of one call.
_ALL_TRIES_SECONDS = 30.0
#: Requests that change nothing.
READS = frozenset(
    {
        "DescribeAclsRequest",
        "DescribeClientQuotasRequest",
        "DescribeConfigsRequest",
        "DescribeLogDirsRequest",
        "DescribeProducersRequest",
        "DescribeTransactionsRequest",
        "FindCoordinatorRequest",
        "ListGroupsRequest",
        "ListTransactionsRequest",
        "MetadataRequest",
    }
)
#: The version of Kafka whose brokers were the first to answer a request.
_SINCE = {
    "DescribeClientQuotasRequest": "2.6",
    "DescribeProducersRequest": "2.8",
    "DescribeTransactionsRequest": "3.0",
    "ListTransactionsRequest": "3.0",
}


class _BrokerClient:
    """kafka-python's client, with what it does not offer: one request to each of several brokers.

    Args:
        sends: names of the requests that it may send.
        settings: kafka-python's.
    """

    def __init__(self, sends: frozenset[str], **settings: Any) -> None:
        self._sends = sends
        self._client = KafkaAdminClient(**settings)
        self._manager = self._client._manager  # noqa: SLF001 (sends a request to one given broker)

    def close(self) -> None:
        """Disconnect."""
        self._client.close()

    def ask_each(self, requests: Mapping[int, Any], timeout: float) -> dict[int, Any]:
        """Send each broker its request, all at once; return by broker its answer, or a KafkaError.

        Raises:
            BadInput: a request is none of those that this client may send.
        """
        if foreign := sorted({type(request).__name__ for request in requests.values()} - self._sends):
            raise BadInput(
                "a client of brokers may not send this request",
                ", ".join(foreign),
                "no request was sent; report this message as a defect of Switchback",
            )
        answers: dict[int, Any] = self._manager.run(self._ask_each, requests, int(timeout * 1000))
        return answers

    async def _ask_each(self, requests: Mapping[int, Any], timeout_ms: int) -> dict[int, Any]:
        sent = {broker: self._sent_to(broker, request, timeout_ms) for broker, request in requests.items()}
        return {broker: await _answer_or_error(future) for broker, future in sent.items()}

    def _sent_to(self, broker: int, request: Any, timeout_ms: int) -> Any:
        try:
            node = None if broker == _ANY_BROKER else broker
            return self._manager.send(request, node_id=node, request_timeout_ms=timeout_ms)
        except KafkaError as error:
            return Future().failure(error)


async def _answer_or_error(future: Any) -> Any:
    try:
        return await future
    except KafkaError as error:
        return error


class BrokerRequests:
    """Asks brokers of one cluster, all at once; connections are kept for the next request.

    Attributes:
        sends: names of the requests that it may send.
    """

    sends: ClassVar[frozenset[str]] = READS

    def __init__(self, config: Mapping[str, Any], alias: str, scope: DrillScope | None = None) -> None:
        """Check the settings; no request is sent yet.

        Args:
            config: the connection's settings, by librdkafka's keys.
            alias: the cluster's name in the topology, for errors.
            scope: in a drill, what may be changed.
        """
        self._config, self._alias, self._scope = client_config(config, alias), alias, scope
        self._client: _BrokerClient | None = None
        self._using = Lock()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._alias!r})"

    def close(self) -> None:
        """Disconnect; the next request connects again."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _ask(
        self, what: str, requests: Mapping[int, Any], parse: Callable[[Any], T], timeout: float, needs: str = ""
    ) -> dict[int, T | KafkaUnavailable]:
        """Send each broker its request; return the parsed answer, or the error, by the broker's id.

        Args:
            what: the requests, for errors.
            requests: by the id of a broker.
            parse: reads an answer; raises a KafkaError that stands in it.
            timeout: limit of the requests, in seconds.
            needs: the right that the connection's principal needs, for errors.
        """
        answers: dict[int, T | KafkaUnavailable] = {}
        with self._using, self._border(what):
            for broker, answer in self._connected(timeout).ask_each(requests, timeout).items():
                try:
                    answers[broker] = parse(answer)
                except KafkaError as error:
                    answers[broker] = self._refused(what, broker, error, type(requests[broker]).__name__, needs)
        if any(isinstance(answer, KafkaUnavailable) for answer in answers.values()):
            # A broker that has moved, or came back, is known to a new client only.
            self.close()
        return answers

    def _all(
        self, what: str, requests: Mapping[int, Any], parse: Callable[[Any], T], timeout: float, needs: str = ""
    ) -> list[T]:
        """Return the parsed answers of all brokers; raise the first error."""
        answers = []
        for answer in self._ask(what, requests, parse, timeout, needs).values():
            if isinstance(answer, KafkaUnavailable):
                raise answer
            answers.append(answer)
        return answers

    def _any(
        self, what: str, request: Any, parse: Callable[[Any], T], timeout: float = REQUEST_SECONDS, needs: str = ""
    ) -> T:
        """Return the parsed answer of any broker; raise its error."""
        (answer,) = self._all(what, {_ANY_BROKER: request}, parse, timeout, needs)
        return answer

    def _metadata(self, topics: Iterable[str], timeout: float = REQUEST_SECONDS) -> Metadata:
        """Return the live brokers, and the leaders of these topics' partitions; topics that do not exist are left out.

        Raises:
            KafkaUnavailable: no broker answers; or the principal lacks the right DESCRIBE on a topic.
        """
        names = sorted(topics)
        request = MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=False
        )
        needs = f"DESCRIBE on the topics {first_few(names)}"
        return self._any("reading metadata", request, _metadata_in, timeout, needs)

    def _coordinator(self, key: str, kind: int, needs: str) -> int:
        """Return the broker id of the coordinator of a group (`kind` 0) or a transactional id (1)."""
        request = FindCoordinatorRequest(key=key, key_type=kind, min_version=1, max_version=_FIND_COORDINATOR)
        return self._any(f"finding the coordinator of {key!r}", request, _coordinator_in, needs=needs)

    def _repeated(self, attempt: Callable[[], T]) -> T:
        """Return what an attempt returns, as `_tried_again` does; close the connection at the end."""
        try:
            return self._tried_again(attempt)
        finally:
            self.close()

    def _tried_again(self, attempt: Callable[[], T]) -> T:
        """Return what an attempt returns; try again, with a new connection, after an error that may pass."""
        ends_at, pauses = time.monotonic() + _ALL_TRIES_SECONDS, growing_pauses()
        while True:
            try:
                return attempt()
            except KafkaUnavailable as error:
                pause = next(pauses)
                if not error.may_pass or time.monotonic() + pause > ends_at:
                    raise
            self.close()
            time.sleep(pause)

    def _connected(self, timeout: float) -> _BrokerClient:
        if self._client is None:
            limits = {"bootstrap_timeout_ms": int(timeout * 1000), "request_timeout_ms": int(timeout * 1000)}
            settings = for_python(self._config, self._alias)
            if tokens := settings.get("sasl_oauth_token_provider"):
                # kafka-python drops the connection without a word if it gets no token.
                tokens.token()
            self._client = _BrokerClient(self.sends, **settings, **limits)
        return self._client

    @contextmanager
    def _border(self, what: str) -> Iterator[None]:
        try:
            yield
        except KafkaError as error:
            self.close()
            raise self._unavailable(what, error) from None

    def _refused(self, what: str, broker: int, error: KafkaError, request: str, needs: str) -> KafkaUnavailable:
        """Return the error of one broker: it is too old, does not answer, or refuses."""
        place = what if broker == _ANY_BROKER else f"{what} on broker {broker}"
        if isinstance(error, IncompatibleBrokerVersion) and request in _SINCE:
            return KafkaUnavailable(
                f"{place} of {self._alias} failed",
                f"the broker does not know the request {request.removesuffix('Request')}, which Kafka has since version"
                f" {_SINCE[request]}",
                f"upgrade {self._alias} to Kafka {_SINCE[request]} or newer, or go on without what needs this request",
            )
        return self._unavailable(place, error, needs if isinstance(error, AuthorizationError) else "")

    def _unavailable(self, what: str, error: KafkaError, missing: str = "") -> KafkaUnavailable:
        grant = f"grant {missing} to the connection's principal on {self._alias}"
        # kafka-python does not say why no broker took the connection.
        seen = "no broker answers, or all refuse the login" if isinstance(error, KafkaTimeoutError) else ""
        return KafkaUnavailable(
            f"{what} of {self._alias} failed",
            one_line(f"{seen or type(error).__name__}: {error}"),
            f"{grant}: runbooks/rights.md"
            if missing
            else f"find out in the logs of the brokers of {self._alias} why they do not answer, or refuse; compare the"
            f" rights of the connection's principal on {self._alias} with runbooks/rights.md",
            error.retriable,
        )


def require_answer(answer: Any) -> Any:
    """Return the answer; raise the error that stands in place of an answer."""
    if isinstance(answer, KafkaError):
        raise answer
    return answer


def raise_code(part: Any) -> None:
    """Raise the error that an answer, or a part of it, has."""
    if part.error_code:
        raise for_code(part.error_code)(getattr(part, "error_message", None))


def _coordinator_in(answer: Any) -> int:
    raise_code(require_answer(answer))
    return int(answer.node_id)


def _metadata_in(answer: Any) -> Metadata:
    leaders: dict[str, dict[int, int | None]] = {}
    for topic in require_answer(answer).topics:
        if for_code(topic.error_code) is UnknownTopicOrPartitionError:
            continue
        if topic.error_code:
            raise for_code(topic.error_code)(f"topic {topic.name}")
        leaders[topic.name] = {
            one.partition_index: one.leader_id if one.leader_id >= 0 else None for one in topic.partitions
        }
    return Metadata(tuple(sorted(broker.node_id for broker in answer.brokers)), leaders)
