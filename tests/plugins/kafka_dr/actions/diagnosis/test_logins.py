"""Logins of connectors: what is tried, what cannot be, and what an address alone shows."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from kafka_dr.actions.diagnosis.logins import try_connectors_login
from kafka_dr.domain.diagnosis.clusters import Reach
from kafka_dr.errors import KafkaUnavailable
from kafka_dr.hooks.open_ports import accepts_connection

JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="mm2" password="secret-word";'


class Cluster:
    """A cluster that refuses every login, or does not answer."""

    def __init__(self, *complaints: str) -> None:
        self._complaints = frozenset(complaints)

    def cluster_id(self, timeout: float) -> str:
        """No answer, unless it does not complain."""
        if self._complaints:
            raise KafkaUnavailable("reading the cluster id failed", "no answer in time")
        return "id-of-east"

    def complaints(self) -> frozenset[str]:
        """What the client complained about."""
        return self._complaints

    def close(self) -> None:
        """Disconnect."""


@pytest.fixture
def listening() -> Iterator[str]:
    """An address that accepts connections and answers nothing, like a frozen broker."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def closed(listening: str) -> str:
    """An address on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def tried(cluster: Cluster, **java: str) -> tuple[Any, list[dict[str, str]]]:
    """What comes of a connector's login, and with which settings a client was made."""
    made: list[dict[str, str]] = []

    def client(_alias: str, settings: dict[str, str]) -> Cluster:
        made.append(settings)
        return cluster

    run = SimpleNamespace(
        request=SimpleNamespace(source="east", target="west"), systems=SimpleNamespace(cluster_as=client)
    )
    config = {key.replace("_", "."): value for key, value in java.items()}
    connectors = SimpleNamespace(client_settings=lambda name, role: config)
    return try_connectors_login(run, connectors, "mirror", "source"), made


def test_a_login_that_stands_in_full_is_tried(listening: str) -> None:
    """With the connector's own user, and the cluster's id is what the answer states."""
    reach, made = tried(Cluster(), bootstrap_servers=listening, sasl_jaas_config=JAAS, sasl_mechanism="SCRAM-SHA-512")
    assert (reach.reach, reach.cluster_id) == (Reach.ANSWERS, "id-of-east")
    assert made[0]["sasl.username"] == "mm2" and made[0]["sasl.password"] == "secret-word"


@pytest.mark.parametrize("complaint", ["_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "_SSL"])
def test_a_refused_login_is_told_from_silence(listening: str, complaint: str) -> None:
    """By what the client complained about."""
    refused, _ = tried(Cluster(complaint), bootstrap_servers=listening, sasl_jaas_config=JAAS)
    silent, _ = tried(Cluster("_TRANSPORT"), bootstrap_servers=listening, sasl_jaas_config=JAAS)
    assert (refused.reach, silent.reach) == (Reach.REFUSES_LOGIN, Reach.SILENT)
    assert "secret-word" not in repr(refused)


def test_no_listener_is_told_from_silence(closed: str) -> None:
    """By a connection that is closed again at once."""
    reach, _ = tried(Cluster("_TRANSPORT"), bootstrap_servers=closed, sasl_jaas_config=JAAS)
    assert reach.reach is Reach.UNREACHABLE and closed in reach.seen


@pytest.mark.parametrize("login", ["${file:/etc/login.properties:jaas}", "*****"])
def test_of_a_login_elsewhere_only_the_address_is_tried(listening: str, closed: str, login: str) -> None:
    """No client logs in with a reference or with asterisks, which a broker would refuse."""
    for address, expected in ((listening, Reach.UNKNOWN), (closed, Reach.UNREACHABLE)):
        reach, made = tried(Cluster("_AUTHENTICATION"), bootstrap_servers=address, sasl_jaas_config=login)
        assert reach.reach is expected and made == []


def test_without_addresses_nothing_is_tried() -> None:
    """Dedicated mode states no settings here; an address may be a reference, too."""
    assert tried(Cluster())[0].reach is Reach.UNKNOWN
    assert tried(Cluster(), bootstrap_servers="${env:SERVERS}")[0].reach is Reach.UNKNOWN


def test_an_address_may_name_a_protocol(listening: str, closed: str) -> None:
    """As bootstrap servers sometimes do; nonsense accepts nothing."""
    assert accepts_connection(listening, 1.0) and accepts_connection(f"SASL_SSL://{listening}", 1.0)
    assert not any(accepts_connection(address, 1.0) for address in (closed, "", "nowhere", "127.0.0.1:none"))
