"""Airflow connections, read as the product reads them."""

from __future__ import annotations

import json

import pytest
from kafka_dr.connections import Connections
from kafka_dr.errors import BadInput
from kafka_dr.hooks.http_tls import HttpTls

TELLING = {
    "yarn": {"conn_type": "spark", "host": "yarn"},
    "yarn by its type": {"conn_type": "yarn", "host": "rm", "port": 8032},
    "kubernetes": {"conn_type": "spark", "host": "k8s://https://api:6443"},
    "kubernetes by its type": {"conn_type": "k8s", "host": "api", "port": 6443},
    "a name that the provider takes for YARN": {"conn_type": "spark", "host": "yarn-edge", "port": 7077},
}


def test_masters_that_take_logins_on_their_command_line_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """In whatever way the connection names them; what is refused names the master, and no login."""
    for told, connection in TELLING.items():
        monkeypatch.setenv(
            "AIRFLOW_CONN_SPARK_X", json.dumps({**connection, "login": "spark", "password": "hidden-from-view"})
        )
        with pytest.raises(BadInput, match="spark_x would show secrets") as refused:
            Connections().check_spark("spark_x")
        assert "hidden-from-view" not in str(refused.value), told


def test_a_driver_elsewhere_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider would refuse its environment only after the fence."""
    monkeypatch.setenv(
        "AIRFLOW_CONN_SPARK_X",
        json.dumps({"conn_type": "spark", "host": "spark://m:7077", "extra": {"deploy-mode": "cluster"}}),
    )
    with pytest.raises(BadInput, match="does not pass secrets on"):
        Connections().check_spark("spark_x")


@pytest.mark.parametrize(
    "connection",
    [
        {"host": "local[*]"},
        {"host": "spark://m", "port": 7077},
        {"host": "m", "port": 7077, "extra": {"deploy-mode": "client"}},
    ],
)
def test_spark_here_and_standalone_clusters_are_taken(connection: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their logins travel in the process's environment."""
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_X", json.dumps({"conn_type": "spark", **connection}))
    Connections().check_spark("spark_x")


@pytest.mark.parametrize(
    ("connection", "url"),
    [
        ({"conn_type": "postgres", "host": "db", "login": "me", "schema": "x"}, "postgresql+psycopg://me@db/x"),
        ({"conn_type": "generic", "extra": {"url": "postgres://me@db/x"}}, "postgresql+psycopg://me@db/x"),
        ({"conn_type": "generic", "extra": {"url": "postgresql+psycopg2://db/x"}}, "postgresql+psycopg2://db/x"),
        ({"conn_type": "generic", "extra": {"url": "sqlite:////postgres://x"}}, "sqlite:////postgres://x"),
    ],
)
def test_the_journal_on_postgresql_takes_psycopg(connection: dict, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow's own spelling names no driver; a driver that is named stays."""
    monkeypatch.setenv("AIRFLOW_CONN_JOURNAL_X", json.dumps(connection))
    assert Connections().journal_url("journal_x") == url


def test_certificates_of_an_http_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """They stand in the extra; a connection without an extra has none."""
    monkeypatch.setenv(
        "AIRFLOW_CONN_CONNECT_X",
        json.dumps({"conn_type": "http", "host": "https://c:8083", "extra": {"verify": "/ca.pem", "cert": "/c.pem"}}),
    )
    assert Connections().tls("connect_x") == HttpTls("/ca.pem", "/c.pem")
    monkeypatch.setenv("AIRFLOW_CONN_CONNECT_X", json.dumps({"conn_type": "http", "host": "http://c:8083"}))
    assert Connections().tls("connect_x") == HttpTls()
    monkeypatch.setenv("AIRFLOW_CONN_CONNECT_X", json.dumps({"conn_type": "http", "extra": {"verify": False}}))
    with pytest.raises(BadInput, match="connect_x"):
        Connections().tls("connect_x")
