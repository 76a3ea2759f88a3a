"""Airflow connections, read as the product reads them."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Barrier, BrokenBarrierError

import pytest
from airflow.sdk import Connection
from airflow.sdk.execution_time.secrets import (
    _SERVER_DEFAULT_SECRETS_SEARCH_PATH,
    DEFAULT_SECRETS_SEARCH_PATH_WORKERS,
)
from airflow.secrets.environment_variables import EnvironmentVariablesBackend
from kafka_dr import connections as connections_module
from kafka_dr.connections import _AIRFLOWS_DATABASE, Connections
from kafka_dr.errors import BadInput, BindingBroken
from kafka_dr.hooks.http_tls import HttpTls
from kafka_dr.hooks.spark_place import SparkPlace
from kafka_dr.procedure.binding import BoundConnections, address_of_dns, address_of_kafka, address_of_login
from kafka_dr.procedure.entries import Binding

UNKNOWN = {
    "YARN by its type": {"conn_type": "yarn", "host": "rm", "port": 8032},
    "Mesos": {"conn_type": "spark", "host": "mesos://m:5050"},
    "nothing": {"conn_type": "spark", "host": "cluster"},
}
OPEN_HADOOP = {
    "no folder": (None, "neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set"),
    "no file": ("", "cannot be read: FileNotFoundError"),
    "no XML": ("<configuration>", "cannot be read: ParseError"),
    "nothing set": ("<configuration/>", "hadoop.security.authentication is not set"),
    "no encryption": ("kerberos integrity", "hadoop.rpc.protection is integrity"),
    "no Kerberos": ("simple privacy", "hadoop.security.authentication is simple"),
}


@pytest.mark.parametrize("connection", UNKNOWN.values(), ids=UNKNOWN)
def test_an_unknown_master_is_refused(connection: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is refused names the master as spark-submit would get it, and no login."""
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_X", json.dumps({**connection, "password": "hidden-from-view"}))
    with pytest.raises(BadInput, match="spark_x names no Spark master that Switchback knows") as refused:
        Connections().check_spark("spark_x")
    assert "hidden-from-view" not in str(refused.value)


def core_site(authentication: str, protection: str) -> str:
    """Hadoop's settings that decide whether YARN passes secrets on encrypted."""
    settings = {"hadoop.security.authentication": authentication, "hadoop.rpc.protection": protection}
    rows = [f"<property><name>{name}</name><value> {value} </value></property>" for name, value in settings.items()]
    return f"<configuration>{''.join(rows)}</configuration>"


@pytest.mark.parametrize("variable", ["HADOOP_CONF_DIR", "YARN_CONF_DIR"])
@pytest.mark.parametrize(("content", "seen"), OPEN_HADOOP.values(), ids=OPEN_HADOOP)
def test_a_yarn_that_sends_secrets_unencrypted_is_refused(
    content: str | None, seen: str, variable: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Spark's secret of a job is handed to executors by Hadoop's own calls; what is not known is not taken for good."""
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_X", json.dumps({"conn_type": "spark", "host": "yarn"}))
    if content is not None:
        monkeypatch.setenv(variable, str(tmp_path))
    if content:
        text = content if content.startswith("<") else core_site(*content.split())
        (tmp_path / "core-site.xml").write_text(text)
    with pytest.raises(BadInput, match="spark_x would send the secret of Spark's jobs unencrypted") as refused:
        Connections().check_spark("spark_x")
    assert seen in refused.value.seen
    if content is not None:
        (tmp_path / "core-site.xml").write_text(core_site("kerberos", "privacy"))
        Connections().check_spark("spark_x")


@pytest.mark.parametrize("host", ["spark://m:7077", "yarn", "k8s://https://api:6443", "local[*]"])
def test_a_driver_elsewhere_is_refused(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It could not read the private file with the logins."""
    connection = {"conn_type": "spark", "host": host, "password": "shared", "extra": {"deploy-mode": "cluster"}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_X", json.dumps(connection))
    with pytest.raises(BadInput, match="does not pass secrets on"):
        Connections().check_spark("spark_x")


def test_a_keytab_that_is_not_base64_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its content in the message."""
    connection = {"conn_type": "spark", "host": "yarn", "extra": {"keytab": "k3ytab%"}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_X", json.dumps(connection))
    with pytest.raises(BadInput, match="spark_x has no usable keytab") as refused:
        Connections().spark_place("spark_x")
    assert "k3ytab" not in str(refused.value)


@pytest.mark.parametrize(
    "connection",
    [
        {"host": "local[*]"},
        {"host": "local"},
        {"host": "spark://m", "port": 7077, "password": "shared"},
        {"host": "spark://m:7077", "password": "shared"},
        {"host": "m", "port": 7077, "password": "shared", "extra": {"deploy-mode": "client"}},
        {"host": "yarn-edge", "port": 7077, "password": "shared"},
    ],
)
def test_spark_here_and_standalone_clusters_are_taken(connection: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster's secret is the connection's password."""
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_X", json.dumps({"conn_type": "spark", **connection}))
    Connections().check_spark("spark_x")
    assert Connections().spark_place("spark_x").secret == connection.get("password")


@pytest.mark.parametrize(
    "connection",
    [
        {"host": "spark://m", "port": 7077},
        {"host": "spark://m:7077,n:7077"},
        {"host": "m", "port": 7077, "password": ""},
        {"host": "local-cluster[2,1,1024]"},
        {"port": 7077},
        {"host": "k8s://https://api:6443"},
    ],
)
def test_a_cluster_without_a_secret_is_refused(connection: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its executors would get logins over connections that nobody proves and nobody encrypts."""
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_X", json.dumps({"conn_type": "spark", **connection}))
    with pytest.raises(BadInput, match="spark_x would send logins to an unprotected Spark cluster"):
        Connections().check_spark("spark_x")


def test_the_password_of_spark_in_the_task_is_no_secret_of_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no cluster that would share it."""
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_X", json.dumps({"conn_type": "spark", "host": "local[*]", "password": "x"}))
    assert Connections().spark_place("spark_x") == SparkPlace("task")


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


class Stored:
    """Stands in for Airflow's own database, behind whichever backend reads it."""

    def get_connection(self, conn_id: str) -> Connection:
        """Return a connection that somebody edited."""
        return Connection(conn_id=conn_id, conn_type="http", host="http://evil", login="switchback", password="pw")


def database_under(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let Airflow look up connections in the environment, then in its database under one of the backends' names."""
    backends = [EnvironmentVariablesBackend(), type(name, (Stored,), {})()]
    monkeypatch.setattr("airflow.sdk.execution_time.supervisor.ensure_secrets_backend_loaded", lambda: backends)


ZONE = {"conn_type": "generic", "host": "ns1.example.com", "login": "key.", "password": "aGlkZGVu"}


def test_a_zones_server_and_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Port, algorithm and servers may be left out; what is shown of it lacks the secret."""
    monkeypatch.setenv("AIRFLOW_CONN_ZONE_X", json.dumps(ZONE))
    login = Connections().dns("zone_x")
    assert (login.server, login.port, login.algorithm, login.servers) == ("ns1.example.com", 53, "hmac-sha256", ())
    assert login.secret == "aGlkZGVu" and "aGlkZGVu" not in repr(login)
    more = {"port": 5353, "extra": {"algorithm": "hmac-sha512", "servers": ["ns2", "192.0.2.53:53"]}}
    monkeypatch.setenv("AIRFLOW_CONN_ZONE_Y", json.dumps(ZONE | more))
    login = Connections().dns("zone_y")
    assert (login.port, login.algorithm, login.servers) == (5353, "hmac-sha512", ("ns2", "192.0.2.53:53"))
    assert address_of_dns(login) == "dns://ns1.example.com:5353, servers ns2, 192.0.2.53:53 as key."


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"host": ""}, "names no DNS server"),
        ({"extra": {"servers": "ns2"}}, "names no DNS server"),
        ({"login": ""}, "has no TSIG key"),
        ({"password": ""}, "has no TSIG key"),
    ],
)
def test_a_zone_without_server_or_key_is_refused(change: dict, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever may send from the right address could redirect clients without a key."""
    monkeypatch.setenv("AIRFLOW_CONN_ZONE_X", json.dumps(ZONE | change))
    with pytest.raises(BadInput, match=words) as refused:
        Connections().dns("zone_x")
    assert "aGlkZGVu" not in str(refused.value)


def test_a_zone_that_moved_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run redirects clients where it was approved to."""
    monkeypatch.setenv("AIRFLOW_CONN_ZONE_X", json.dumps(ZONE))
    began = Binding(clusters={}, topology_digest="", addresses={"zone_x": "dns://ns0.example.com:53 as key."})
    with pytest.raises(BindingBroken, match="zone_x: dns://ns1.example.com:53 as key., began with dns://ns0"):
        BoundConnections(Connections(), began).dns("zone_x")


@pytest.mark.parametrize("backend", ["MetastoreBackend", "ExecutionAPISecretsBackend"])
def test_the_database_chooses_neither_the_api_nor_the_journal(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who may edit connections would otherwise name the server that states who approved."""
    database_under(monkeypatch, backend)
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "http://airflow:8080")
    for read in (Connections().api_login, Connections().journal_url):
        with pytest.raises(BadInput, match="neither in the environment nor in a secrets backend"):
            read("api_x")
    monkeypatch.setenv("AIRFLOW_CONN_API_X", json.dumps({"conn_type": "http", "login": "switchback", "password": "p"}))
    assert Connections().api_login("api_x") == ("http://airflow:8080", "switchback", "p")


def test_a_token_for_the_api_needs_its_account(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else Switchback's own account could not be told from an approver's."""
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow:8080")
    extra = {"token_file": "/run/token"}
    monkeypatch.setenv("AIRFLOW_CONN_API_X", json.dumps({"conn_type": "http", "extra": extra}))
    with pytest.raises(BadInput, match="api_x names no account"):
        Connections().api_login("api_x")
    monkeypatch.setenv("AIRFLOW_CONN_API_X", json.dumps({"conn_type": "http", "login": "switchback", "extra": extra}))
    assert Connections().api_login("api_x") == ("https://airflow:8080", "switchback", "")
    assert Connections().tls("api_x").token_file == "/run/token"


def test_the_database_chooses_no_spark_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clusters' logins travel to its executors."""
    database_under(monkeypatch, "MetastoreBackend")
    edited = Connection(conn_id="spark_x", conn_type="spark", host="spark://evil", port=7077, password="pw")
    monkeypatch.setattr("kafka_dr.connections.BaseHook.get_connection", lambda _: edited)
    with pytest.raises(BadInput, match="spark_x is neither in the environment nor in a secrets backend"):
        Connections().check_spark("spark_x")


def test_a_secrets_backend_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other backends than those of Airflow's own database are the site's."""
    database_under(monkeypatch, "VaultBackend")
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "http://evil")
    assert Connections().api_login("api_x") == ("http://evil", "switchback", "pw")


def test_airflow_knows_no_other_backend_of_its_database() -> None:
    """The refused names are those of this Airflow; a later Airflow may rename them."""
    known = {*_SERVER_DEFAULT_SECRETS_SEARCH_PATH, *DEFAULT_SECRETS_SEARCH_PATH_WORKERS}
    assert {path.rpartition(".")[2] for path in known} == {"EnvironmentVariablesBackend", *_AIRFLOWS_DATABASE}


@pytest.mark.parametrize(
    ("configured", "stated", "url"),
    [
        ({"CORE__EXECUTION_API_SERVER_URL": "http://api:8080/execution/"}, None, "http://api:8080"),
        ({"CORE__EXECUTION_API_SERVER_URL": "http://api:8080/execution"}, "http://api:8080/", "http://api:8080"),
        ({"API__BASE_URL": "https://airflow/site/"}, None, "https://airflow/site"),
        ({"CORE__EXECUTION_API_SERVER_URL": "http://a/execution/", "API__BASE_URL": "https://b"}, None, "http://a"),
        ({"API__BASE_URL": "https://airflow"}, "https://evil", None),
        ({"API__BASE_URL": "https://airflow"}, "http://airflow", None),
        ({}, "http://airflow", None),
    ],
)
def test_the_api_is_the_one_in_airflows_configuration(
    configured: dict[str, str], stated: str | None, url: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that names another address is refused, and names both."""
    for key in ("CORE__EXECUTION_API_SERVER_URL", "API__BASE_URL"):
        monkeypatch.delenv(f"AIRFLOW__{key}", raising=False)
    for key, value in configured.items():
        monkeypatch.setenv(f"AIRFLOW__{key}", value)
    host = {"host": stated} if stated else {}
    monkeypatch.setenv("AIRFLOW_CONN_API_X", json.dumps({"conn_type": "http", "login": "s", "password": "p", **host}))
    if url is None:
        with pytest.raises(BadInput, match=stated if configured else "does not name the API server"):
            Connections().api_login("api_x")
        return
    assert Connections().api_login("api_x")[0] == url


LEADING = {
    "a:1,b:2 as u": {
        "conn_type": "kafka",
        "extra": {"bootstrap.servers": "a:1,b:2", "sasl.username": "u", "sasl.password": "pw"},
    },
    "a:1 as dr of https://issuer/token": {
        "conn_type": "kafka",
        "extra": {
            "bootstrap.servers": "a:1",
            "security.protocol": "sasl_ssl",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.client.id": "dr",
            "sasl.oauthbearer.client.secret": "pw",
            "sasl.oauthbearer.token.endpoint.url": "https://u:pw@issuer/token",
        },
    },
    "https://c:8083 as u": {
        "conn_type": "http",
        "host": "https://u:pw@c",
        "port": 8083,
        "login": "u",
        "password": "pw",
        # Nothing that is not used decides where the connection leads.
        "extra": {"bootstrap.servers": "good:1", "sasl.username": "good"},
    },
    "spark://m:7077": {"conn_type": "spark", "host": "spark://m", "port": 7077},
}


@pytest.mark.parametrize("address", LEADING)
def test_an_address_holds_no_secret(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says where a connection leads, and as which user."""
    monkeypatch.setenv("AIRFLOW_CONN_SYSTEM_X", json.dumps(LEADING[address]))
    if LEADING[address]["conn_type"] == "kafka":
        assert address_of_kafka(Connections().kafka("system_x")) == address
    else:
        assert address_of_login(Connections().login("system_x")) == address


def test_who_edits_a_connection_between_two_reads_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was compared with the run's beginning is what is used, however fast somebody edits."""
    reads = iter(["standby:9092", "evil:9092", "evil:9092"])

    def read(connection_id: str) -> Connection:
        servers = json.dumps({"bootstrap.servers": next(reads)})
        return Connection(conn_id=connection_id, conn_type="kafka", extra=servers)

    monkeypatch.setattr("kafka_dr.connections.BaseHook.get_connection", read)
    began = Binding(clusters={}, topology_digest="", addresses={"k": "standby:9092"})
    bound = BoundConnections(Connections(), began)
    assert bound.kafka("k")["bootstrap.servers"] == "standby:9092"
    with pytest.raises(BindingBroken, match="k: evil:9092, began with standby:9092"):
        BoundConnections(Connections(), began).kafka("k")


@pytest.mark.parametrize("backend", ["MetastoreBackend", "ExecutionAPISecretsBackend"])
def test_the_database_does_not_choose_the_archive(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who may edit connections would otherwise let groups be placed by samples of their own."""
    database_under(monkeypatch, backend)
    with pytest.raises(BadInput, match="neither in the environment nor in a secrets backend"):
        Connections().archive_options("archive_x")
    monkeypatch.setenv("AIRFLOW_CONN_ARCHIVE_X", json.dumps({"conn_type": "aws", "extra": {"key": "k"}}))
    assert Connections().archive_options("archive_x") == {"key": "k"}


def test_a_missing_kafka_connection_is_named() -> None:
    """A trial of an application's login tells it, too."""
    with pytest.raises(BadInput, match="Connection kafka_nowhere does not exist"):
        Connections().kafka("kafka_nowhere")


class Supervised:
    """Asks by two acts, as Airflow does: a thread that comes between them gets the other's answer."""

    def __init__(self, wait_seconds: float) -> None:
        self._wait_seconds, self._asked, self._all_asked = wait_seconds, "", Barrier(4)

    def send(self, msg: str) -> str:
        """Return the answer to the newest question, once four have asked or the time is up."""
        self._asked = msg
        with suppress(BrokenBarrierError):
            self._all_asked.wait(self._wait_seconds)
        return f"answer to {self._asked}"


def asked_at_once(supervisor: Supervised) -> list[str]:
    """What four threads are answered."""
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(supervisor.send, "abcd"))


def test_threads_ask_the_supervisor_one_after_another() -> None:
    """Airflow 3.1 has no lock; a class that has one stays as it is."""
    locked = type("Locked", (Supervised,), {"_thread_lock": None})
    own = locked.send
    connections_module.serialise_requests(locked)
    assert locked.send is own
    unlocked = type("Unlocked", (Supervised,), {"send": Supervised.send})
    assert len(set(asked_at_once(unlocked(60.0)))) == 1
    connections_module.serialise_requests(unlocked)
    assert asked_at_once(unlocked(0.05)) == [f"answer to {one}" for one in "abcd"]
    assert unlocked(0.05).send(msg="e") == "answer to e", "Airflow asks both ways"
