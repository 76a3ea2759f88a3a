"""One cluster through one confluent-kafka AdminClient: how it is asked, and what its errors become."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from confluent_kafka import (
    KafkaError,
    KafkaException,
)
from confluent_kafka.admin import (
    AdminClient,
)

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
)
from kafka_dr.hooks.brokers.group_requests import (
    RequestWindow,
)

_T = TypeVar("_T")

REQUEST_SECONDS = 30.0
COORDINATOR_SECONDS = 10.0
#: Topics or groups of one request.
MOST_AT_ONCE = 500


class ClusterConnection:
    """The clients of one cluster, and how answers are waited for."""

    def __init__(self, alias: str, config: Mapping[str, Any]) -> None:
        """Make the client; nothing is asked of the cluster yet.

        Args:
            alias: what the topology calls the cluster; stands in every error.
            config: librdkafka keys, see `ALLOWED_KEYS`.
        """
        self.alias = alias
        self._servers = str(config.get("bootstrap.servers", ""))
        self._last_error = ""
        self._complaints: set[str] = set()
        self._settings = {**client_config(config, alias), "error_cb": self._complain}
        self._group_client: AdminClient | None = None
        with kafka_border(alias, "making a client"):
            self._admin = AdminClient(self._settings)

    def __repr__(self) -> str:
        return f"KafkaCluster({self.alias!r}, {self._servers!r})"

    @property
    def admin(self) -> AdminClient:
        """The client itself, for the ACL hook; keep this object while results of it are awaited."""
        return self._admin

    def complaint(self) -> str:
        """What the client last said about its connections (often the true reason of a timeout); empty when nothing."""
        for client in filter(None, (self._admin, self._group_client)):
            client.poll(0)
        return self._last_error

    def complaints(self) -> frozenset[str]:
        """Kafka's names of everything the client said about its connections so far."""
        self.complaint()
        return frozenset(self._complaints)

    def _coordinators(self) -> AdminClient:
        """The client for requests to group coordinators: one of its own, see `_forget_coordinators`."""
        if self._group_client is None:
            with kafka_border(self.alias, "making a client"):
                self._group_client = AdminClient(self._settings)
        return self._group_client

    def _forget_coordinators(self) -> None:
        """Drop that client after a failure, once nothing is under way.

        librdkafka aborts the whole process when a broker comes back after a request to it, as coordinator, has timed
        out.
        """
        self._group_client = None

    def _complain(self, error: KafkaError) -> None:
        self._complaints.add(error.name())
        # "All brokers are down" only sums up: it must not hide what a broker said before it.
        if not (self._last_error and error.code() == KafkaError._ALL_BROKERS_DOWN):
            self._last_error = describe_error(error)

    def _border(self, what: str) -> Any:
        return kafka_border(self.alias, what, self.complaint)

    def _existing(self, what: str, asked: list[dict[_T, Future[Any]]], timeout: float) -> dict[_T, Any]:
        """Results by key, without the topics that do not exist."""
        found = {key: outcome_of(future, timeout + 5) for futures in asked for key, future in futures.items()}
        with self._border(what):
            return {
                key: raise_error(value)
                for key, value in found.items()
                if not is_error(value, KafkaError.UNKNOWN_TOPIC_OR_PART)
            }

    def _settled(
        self,
        what: str,
        items: Iterable[_T],
        send: Callable[[Iterable[_T]], Iterator[tuple[_T, Future[Any]]]],
        timeout: float,
        window: RequestWindow | None = None,
        of_groups: bool = True,
    ) -> Iterator[tuple[_T, Any]]:
        """Send requests for all items, and again after transient errors until the timeout; raise any other error.

        Args:
            of_groups: whether coordinators are asked; other questions may be put while these are under way, and leave
                their client alone.
        """
        ends_at, pending = time.monotonic() + timeout, items
        for pause in growing_pauses():
            again = []
            with self._border(what):
                for item, future in send(pending):
                    value = outcome_of(future, max(0.0, ends_at - time.monotonic()) + 5)
                    repeat = is_transient(value) and time.monotonic() + pause < ends_at
                    if window:
                        window.saw(good=not repeat)
                    if repeat:
                        again.append(item)
                    else:
                        yield item, self._named(what, item, value, of_groups)
            if not again:
                return
            if of_groups:
                self._forget_coordinators()
            time.sleep(pause)
            pending = again

    def _named(self, what: str, item: Any, value: Any, of_groups: bool) -> Any:
        if isinstance(error := error_in(value), KafkaError):
            if of_groups:
                self._forget_coordinators()
            with self._border(f"{what} ({item})"):
                raise KafkaException(error)
        return value

    def _done(self, what: str, future: Future[Any], timeout: float, already: int) -> bool:
        """Wait for a change; False when the cluster says that it was already so."""
        outcome = outcome_of(future, timeout + 5)
        if is_error(outcome, already):
            return False
        with self._border(what):
            raise_error(outcome)
        return True
