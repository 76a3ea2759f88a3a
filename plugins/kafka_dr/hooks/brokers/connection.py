"""Requests to one cluster by confluent-kafka's AdminClient, repeated after transient errors.

Errors are raised as Switchback's own errors.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from kafka_dr.concurrently import run_in_background
from kafka_dr.domain.drill.scope import DrillScope
from kafka_dr.errors import KafkaUnavailable
from kafka_dr.hooks.brokers.client import (
    client_config,
    describe_error,
    error_in,
    growing_pauses,
    is_error,
    is_transient,
    kafka_border,
    outcome_of,
    raise_error,
    send_in_batches,
)
from kafka_dr.hooks.brokers.group_requests import RequestWindow
from kafka_dr.hooks.drill.admin_client import admin_client

if TYPE_CHECKING:
    from kafka_dr.hooks.brokers.every_broker import EveryBroker

_T = TypeVar("_T")

REQUEST_SECONDS = 30.0
COORDINATOR_SECONDS = 10.0
#: Limit of topics or groups in one request.
MOST_AT_ONCE = 500


class ClusterConnection:
    """Sends requests by the admin clients of one cluster, and waits for the answers.

    Attributes:
        alias: the cluster's name in the topology.
        scope: in a drill, what the client may change.
    """

    def __init__(self, alias: str, config: Mapping[str, Any], scope: DrillScope | None = None) -> None:
        """Create the client; no request is sent yet.

        Args:
            alias: the cluster's name in the topology, for errors.
            config: the connection's settings, by librdkafka's keys (`ALLOWED_KEYS`).
            scope: in a drill, what the client may change.
        """
        self.alias, self.scope = alias, scope
        self._servers = str(config.get("bootstrap.servers", ""))
        self._last_error = ""
        self._complaints: set[str] = set()
        self._settings = {**client_config(config, alias), "error_cb": self._complain}
        self._group_client: AdminClient | None = None
        self._reading_client: AdminClient | None = None
        self._config = config
        with kafka_border(alias, "creating a Kafka client"):
            self._admin = admin_client(self._settings, scope)

    def __repr__(self) -> str:
        return f"KafkaCluster({self.alias!r}, {self._servers!r})"

    @property
    def admin(self) -> AdminClient:
        """Return the admin client, for requests about ACLs; store a reference to it until all answers arrive."""
        return self._admin

    @cached_property
    def every_broker(self) -> EveryBroker:
        """Return what asks each broker of the cluster by itself."""
        from kafka_dr.hooks.brokers.every_broker import EveryBroker  # noqa: PLC0415 (8 MB, which the recorder is spared)

        return EveryBroker(self._config, self.alias)

    def close(self) -> None:
        """Disconnect the client that asks each broker by itself; it connects again when it is used."""
        if "every_broker" in vars(self):
            self.every_broker.close()

    def complaint(self) -> str:
        """Return the clients' last connection error, often the true reason of a timeout; empty without an error."""
        for client in filter(None, (self._admin, self._group_client, self._reading_client)):
            client.poll(0)
        return self._last_error

    def complaints(self) -> frozenset[str]:
        """Return Kafka's names of all connection errors that the clients have had so far."""
        self.complaint()
        return frozenset(self._complaints)

    def _coordinators(self) -> AdminClient:
        """Return the client for requests to group coordinators; create the client if the last client was dropped."""
        if self._group_client is None:
            self._group_client = self._new_client()
        return self._group_client

    def _new_client(self) -> AdminClient:
        with kafka_border(self.alias, "creating a Kafka client"):
            return admin_client(self._settings, self.scope)

    def _forget_coordinators(self) -> None:
        """Drop the client for group coordinators after a failure, and with it requests that have no answer."""
        self.complaint()
        dropped, self._group_client = [self._group_client], None
        drop_client(dropped)

    def _complain(self, error: KafkaError) -> None:
        self._complaints.add(error.name())
        # "All brokers are down" is only a summary: it must not replace the error of a single broker.
        if not (self._last_error and error.code() == KafkaError._ALL_BROKERS_DOWN):
            self._last_error = describe_error(error)

    def _border(self, what: str) -> Any:
        return kafka_border(self.alias, what, self.complaint)

    def _repeated(self, what: str, request: Callable[[float], _T], timeout: float) -> _T:
        """Return the answer to a request; after an error that may pass, send the request again until the timeout.

        Args:
            what: the request, for the error's message.
            request: sends the request with the given limit in seconds, and returns the answer.
            timeout: seconds for all attempts together; one attempt has COORDINATOR_SECONDS at most, because another
                broker may answer at once.
        """
        ends_at, pauses = time.monotonic() + timeout, growing_pauses()
        while True:
            try:
                with self._border(what):
                    return request(min(COORDINATOR_SECONDS, max(0.1, ends_at - time.monotonic())))
            except KafkaUnavailable as error:
                pause = next(pauses)
                if not error.may_pass or time.monotonic() + pause >= ends_at:
                    raise
            time.sleep(pause)

    def _existing(
        self,
        what: str,
        items: Iterable[_T],
        send: Callable[[list[_T]], dict[_T, Future[Any]]],
        timeout: float,
    ) -> dict[_T, Any]:
        """Return the answers about topics, by item; topics that do not exist are left out.

        Args:
            what: the requests, for the error's message.
            items: the topics' names, or their resources.
            send: sends one request about at most MOST_AT_ONCE items; returns each item's future.
            timeout: seconds for all items together.
        """

        def send_batches(pending: Iterable[_T]) -> Iterator[tuple[_T, Future[Any]]]:
            return send_in_batches(list(pending), MOST_AT_ONCE, send)

        absent = KafkaError.UNKNOWN_TOPIC_OR_PART
        answers = self._settled(what, items, send_batches, timeout, final=absent)
        return {item: value for item, value in answers if not is_error(value, absent)}

    def _settled(
        self,
        what: str,
        items: Iterable[_T],
        send: Callable[[Iterable[_T]], Iterator[tuple[_T, Future[Any]]]],
        timeout: float,
        window: RequestWindow | None = None,
        forget: Callable[[], None] | None = None,
        final: int | None = None,
    ) -> Iterator[tuple[_T, Any]]:
        """Send one request per item and yield each item with its answer; after a transient error, send again.

        Any other error, or a transient error at the timeout, is raised as KafkaUnavailable.

        Args:
            what: the requests, for the error's message.
            items: what each request is about, such as a group or a partition.
            send: sends the requests of items and yields each item with its future.
            timeout: seconds for all items together.
            window: the limit of requests in flight that `send` uses; this function reports to it whether each request
                succeeded. None if `send` uses no such limit.
            forget: drops the client that sends the requests, after an error: this client may still wait for answers, or
                take another broker for the coordinator. None if the client stays, because others use it meanwhile.
            final: Kafka's code of an error that is yielded as an answer.
        """
        ends_at, pending = time.monotonic() + timeout, items
        for pause in growing_pauses():
            unsettled = []
            with self._border(what):
                for item, future in send(pending):
                    value = outcome_of(future, max(0.0, ends_at - time.monotonic()) + 5)
                    repeat = is_transient(value) and time.monotonic() + pause < ends_at
                    if window:
                        window.saw(good=not repeat)
                    if repeat:
                        unsettled.append(item)
                    else:
                        is_answer = is_error(value, final)
                        yield item, value if is_answer else self._raise_if_error(what, item, value, forget)
            if not unsettled:
                return
            if forget:
                forget()
            time.sleep(pause)
            pending = unsettled

    def _raise_if_error(self, what: str, item: Any, value: Any, forget: Callable[[], None] | None) -> Any:
        if isinstance(error := error_in(value), KafkaError):
            if forget:
                forget()
            with self._border(f"{what} ({item})"):
                raise KafkaException(error)
        return value

    def _done(self, what: str, future: Future[Any], timeout: float, already: int) -> bool:
        """Wait for the answer to a change; return whether the change was made.

        Args:
            what: the change, for the error's message.
            future: the request's future.
            timeout: limit in seconds that the request was sent with.
            already: Kafka's error code that means "nothing to change", for which False is returned.
        """
        outcome = outcome_of(future, timeout + 5)
        if is_error(outcome, already):
            return False
        with self._border(what):
            raise_error(outcome)
        return True


def drop_client(last: list[AdminClient | None]) -> None:
    """Disconnect a client on a thread of its own: with requests unanswered, librdkafka may need long for it.

    Args:
        last: the only reference to the client, so that Python frees the client when the list is cleared; or None,
            where the client was dropped before.
    """
    if last != [None]:
        run_in_background(last.clear)
