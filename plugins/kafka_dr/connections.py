"""Reads Airflow connections, and returns them in the forms that hooks need; no other module reads connections."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache, cached_property, wraps
from pathlib import Path
from threading import Lock, RLock
from typing import Any

from airflow.providers.common.compat.sdk import AirflowNotFoundException, conf
from airflow.sdk import BaseHook, Connection

from kafka_dr.config.params import Request
from kafka_dr.config.topology import Topology
from kafka_dr.errors import BadInput
from kafka_dr.hooks.http_tls import HttpTls
from kafka_dr.hooks.site.dns_servers import DEFAULT_ALGORITHM, DNS_PORT, DnsLogin
from kafka_dr.hooks.spark_place import SparkPlace, kind_of, master_of, refuse_cluster_mode, refuse_open_hadoop
from kafka_dr.procedure.stored_files import StoredFiles
from kafka_dr.procedure.systems import Systems, store_of

#: Least number of characters of a password that is a token or a secret of a hash.
_LEAST_TOKEN = 16
_KEPT_SECONDS = 600.0
#: Evidence folder and store of a topology -> its files, and when they were made, by the monotonic clock.
_KEPT_FILES: dict[tuple[str, str], tuple[StoredFiles, float]] = {}
#: Secrets backends that read Airflow's own database, directly or over the API server.
_AIRFLOWS_DATABASE = ("MetastoreBackend", "ExecutionAPISecretsBackend")
_SERIALISING = Lock()


class Connections:
    """Reads Airflow connections by the ids in the topology; each object reads a connection once and keeps it.

    So the address that was compared with the run's beginning is the address that is used, even if somebody edits the
    connection in between.
    """

    @cached_property
    def _read(self) -> Callable[[str], Connection]:
        _serialise_requests_of_tasks()
        return cache(_existing)

    def read_ahead(self, connection_ids: Iterable[str]) -> None:
        """Read connections in this thread, so that others find them read; one that does not exist is left out."""
        for connection_id in connection_ids:
            with suppress(BadInput):
                self._read(connection_id)

    def systems(self, request: Request, topology: Topology) -> Systems:
        """Return the clients of all outside systems for one run, whose checked params are `request`."""
        return Systems(request, topology, self)

    def files(self, topology: Topology) -> StoredFiles:
        """Return the files of a topology's evidence folder and store, for processes that read them again and again.

        The client is kept for some minutes: then the login is read anew.
        """
        store = topology.store.model_dump_json() if topology.store else ""
        made_at, key = time.monotonic(), (topology.evidence, store)
        kept = _KEPT_FILES.get(key)
        if kept is None or made_at - kept[1] > _KEPT_SECONDS:
            kept = _KEPT_FILES[key] = StoredFiles(Path(topology.evidence), store_of(topology, self)), made_at
        return kept[0]

    def kafka(self, connection_id: str) -> dict[str, Any]:
        """Return librdkafka's configuration, the extra of a `kafka` connection.

        Raises:
            BadInput: the connection does not exist, or no servers are in it.
        """
        config = _filled_in(self._read(connection_id))
        if not config.get("bootstrap.servers"):
            raise BadInput(
                f"Connection {connection_id} names no cluster",
                "no bootstrap.servers in its extra",
                "Put librdkafka's configuration into the connection's extra.",
            )
        return config

    def login(self, connection_id: str) -> tuple[str, str, str]:
        """Return base URL, login and password of an `http` connection; login and password may be empty."""
        connection = self._read(connection_id)
        return _url_of(connection), connection.login or "", connection.password or ""

    def dns(self, connection_id: str) -> DnsLogin:
        """Return a zone's primary server and its TSIG key: host, port, login and password of a connection.

        The extra may have `algorithm` (default hmac-sha256) and `servers`, a list of the authoritative servers.

        Raises:
            BadInput: the connection names no server or no key, or its extra cannot be used.
        """
        connection = self._read(connection_id)
        servers, extra = connection.extra_dejson.get("servers", []), connection.extra_dejson
        if not connection.host or not isinstance(servers, list) or not all(isinstance(one, str) for one in servers):
            raise BadInput(
                f"Connection {connection_id} names no DNS server",
                'no host, or "servers" in its extra is not a list of texts',
                "Put the host of the zone's primary server into the connection; in the extra,"
                ' "servers": ["ns1.example.com", "192.0.2.53:5353"] names the authoritative servers, if those of the'
                " zone's NS records are not to be asked.",
            )
        if not connection.login or not connection.password:
            raise BadInput(
                f"Connection {connection_id} has no TSIG key",
                "login or password is empty",
                "Put the key's name into the connection's login, and its secret in base64 into the password.",
            )
        return DnsLogin(
            connection.host,
            connection.port or DNS_PORT,
            connection.login,
            connection.password,
            str(extra.get("algorithm") or DEFAULT_ALGORITHM),
            tuple(servers),
        )

    def api_login(self, connection_id: str) -> tuple[str, str, str]:
        """Return the URL of Airflow's API, by Airflow's own configuration, and Switchback's login for it.

        Raises:
            BadInput: the configuration names no API server; the connection names another one; the connection has a
                token, but no account; or neither the environment nor a secrets backend has the connection.
        """
        connection = stored_outside_airflow(connection_id)
        url = _api_url()
        stated = _url_of(connection)
        if connection.host and stated != url:
            raise BadInput(
                f"Connection {connection_id} names another API server than Airflow's configuration",
                f"{stated} in the connection, {url} in the configuration",
                f"Remove the host from {connection_id}, or correct [core] execution_api_server_url or [api] base_url in"
                " Airflow's configuration on this worker.",
            )
        if not connection.login and self.tls(connection_id).has_token:
            raise BadInput(
                f"Connection {connection_id} names no account",
                "it has a token, and no login",
                "Set the connection's login to the user name to whom the token belongs: that account never approves.",
            )
        return url, connection.login or "", connection.password or ""

    def token(self, connection_id: str) -> str:
        """Return the token by which metrics are scraped, the password of a connection.

        Raises:
            BadInput: neither the environment nor a secrets backend has the connection, or the token is too short.
        """
        return _long_password(connection_id, "token")

    def tls(self, connection_id: str) -> HttpTls:
        """Return certificates and bearer token of an `http` connection, which stand in its extra."""
        return HttpTls.of_extra(_filled_in(self._read(connection_id)), connection_id)

    def archive_options(self, connection_id: str) -> dict[str, Any]:
        """Return fsspec's options for the archive's file system, the extra of a connection.

        Raises:
            BadInput: neither the environment nor a secrets backend has the connection.
        """
        return dict(stored_outside_airflow(connection_id).extra_dejson)

    def export_secret(self, connection_id: str) -> str:
        """Return the secret by which keys in exports are hashed, the password of a connection.

        Raises:
            BadInput: neither the environment nor a secrets backend has the connection, or the secret is too short.
        """
        return _long_password(connection_id, "secret for the hash of keys")

    def check_spark(self, connection_id: str) -> None:
        """Refuse a `spark` connection by which others could read the clusters' logins.

        To executors logins travel inside tasks, which Spark encrypts only for processes that share a secret.
        """
        connection = self._read(connection_id)
        master = _master(connection)
        kind = kind_of(connection_id, master)
        refuse_cluster_mode(connection_id, connection.extra_dejson.get("deploy-mode"))
        if kind == "task":
            return
        # Who may edit connections in Airflow could otherwise send the logins to a cluster of their own.
        stored_outside_airflow(connection_id)
        if kind == "yarn":
            refuse_open_hadoop(connection_id)
        elif not connection.password:
            raise BadInput(
                f"Connection {connection_id} would send logins to an unprotected Spark cluster",
                f"the clusters' logins travel to the executors of {master}, and the connection has no password",
                f"Give the executors a secret as runbooks/where_spark_runs.md says for {kind}, and put the same secret"
                " into the connection's password.",
            )
        if "k8s" in master and not _knows_kubernetes():
            raise BadInput(
                f"Connection {connection_id} needs a package that is missing",
                f"Airflow's Spark provider takes {master} only with the Kubernetes provider",
                "Install apache-airflow-providers-cncf-kubernetes on every machine where tasks run.",
            )

    def spark_place(self, connection_id: str) -> SparkPlace:
        """Return where Spark's executors run, with the secret and the keytab in the `spark` connection.

        Raises:
            BadInput: the connection names an unknown master, or its keytab is not base64.
        """
        connection = self._read(connection_id)
        kind = kind_of(connection_id, _master(connection))
        secret = connection.password if kind in ("standalone", "kubernetes") else None
        try:
            keytab = base64.b64decode(connection.extra_dejson.get("keytab") or "", validate=True)
        except ValueError:
            raise BadInput(
                f"Connection {connection_id} has no usable keytab",
                "`keytab` in its extra is not base64",
                "Set `keytab` in the connection's extra to what `base64 -w0 FILE` prints for the keytab's file.",
            ) from None
        return SparkPlace(kind, secret, keytab or None)

    def journal_url(self, connection_id: str) -> str:
        """Return the journal's SQLAlchemy URL: `url` in the connection's extra, else the connection's own URI.

        Raises:
            BadInput: neither the environment nor a secrets backend has the connection.
        """
        connection = stored_outside_airflow(connection_id)
        url = str(connection.extra_dejson.get("url") or connection.get_uri())
        # Airflow and libpq write `postgres://`, which SQLAlchemy does not know.
        return re.sub(r"^postgres://", "postgresql+psycopg://", url)


def _existing(connection_id: str) -> Connection:
    try:
        return BaseHook.get_connection(connection_id)
    except AirflowNotFoundException:
        raise BadInput(
            f"Connection {connection_id} does not exist",
            "neither the environment nor a secrets backend has it, nor, for a task, Airflow's database",
            f"Create the connection {connection_id} as README.md, Install, says (for a command as environment variable"
            f" AIRFLOW_CONN_{connection_id.upper()}), or correct its name in the topology.",
        ) from None


def stored_outside_airflow(connection_id: str) -> Connection:
    """Return a connection from the environment or a secrets backend, never from Airflow's own database.

    Who may edit connections in Airflow could otherwise choose the server that states who approved, the journal, or the
    archive from which positions are translated when the source is lost.

    Raises:
        BadInput: neither the environment nor a secrets backend has the connection.
    """
    # Imported here: the module takes long to import, and web pages need it for the journal alone.
    from airflow.sdk.execution_time.supervisor import ensure_secrets_backend_loaded  # noqa: PLC0415

    for backend in ensure_secrets_backend_loaded():
        if type(backend).__name__ not in _AIRFLOWS_DATABASE:
            connection: Connection | None = backend.get_connection(conn_id=connection_id)
            if connection is not None:
                return connection
    raise BadInput(
        f"Connection {connection_id} is neither in the environment nor in a secrets backend",
        "Airflow's own database does not count, because everybody who may edit connections could change it there",
        f"Set AIRFLOW_CONN_{connection_id.upper()} in the environment of every Airflow process, or store"
        f" {connection_id} in the secrets backend that workers read.",
    )


def _long_password(connection_id: str, what: str) -> str:
    """Return the password of a connection, which no one can guess; BadInput names `what` it is if it is too short."""
    password = stored_outside_airflow(connection_id).password or ""
    if len(password) < _LEAST_TOKEN:
        raise BadInput(
            f"Connection {connection_id} has no usable {what}",
            f"its password has {len(password)} characters, at least {_LEAST_TOKEN} are needed",
            "Put a random text into the connection's password, such as that of `openssl rand -hex 32`.",
        )
    return password


def serialise_requests(decoder: Any) -> None:
    """Let one thread at a time use a class of Airflow that asks the task's supervisor by its method `send`.

    In Airflow 3.1 threads that ask at once read each other's answers from the one socket: a thread gets the login of
    another cluster, or waits for ever. Later versions have a lock of their own.
    """
    if hasattr(decoder, "_thread_lock"):
        return
    send, lock = decoder.send, RLock()

    @wraps(send)
    def send_alone(*arguments: Any, **named: Any) -> Any:
        with lock:
            return send(*arguments, **named)

    decoder.send = send_alone


@cache
def _serialise_requests_of_tasks() -> None:
    # Imported here: web pages read connections without a supervisor.
    from airflow.sdk.execution_time.comms import CommsDecoder  # noqa: PLC0415

    # The cache lets threads that call at once through; each would wrap the same method behind a lock of its own.
    with _SERIALISING:
        serialise_requests(CommsDecoder)


def _filled_in(connection: Connection) -> dict[str, Any]:
    """Return a connection's extra without the fields of its form that nobody filled in."""
    return {name: value for name, value in connection.extra_dejson.items() if value not in (None, "")}


def _api_url() -> str:
    """Return the URL of Airflow's API: where tasks reach the API server, else its public URL."""
    execution = conf.get("core", "execution_api_server_url", fallback=None)
    url = execution or conf.get("api", "base_url", fallback=None)
    if not url:
        raise BadInput(
            "Airflow's configuration does not name the API server",
            "neither [core] execution_api_server_url nor [api] base_url is set on this worker",
            "Set [api] base_url, or AIRFLOW__API__BASE_URL, to the URL of the API server as this worker reaches it.",
        )
    return str(url).rstrip("/").removesuffix("/execution")


def _url_of(connection: Connection) -> str:
    host = connection.host or ""
    url = host if "://" in host else f"{connection.schema or 'http'}://{host}"
    if connection.port and f":{connection.port}" not in url:
        url = f"{url}:{connection.port}"
    return url.rstrip("/")


def _master(connection: Connection) -> str:
    return master_of(connection.conn_type, connection.host, connection.port)


def _knows_kubernetes() -> bool:
    """Whether Airflow's Spark provider found Kubernetes' client, without which it fails with a NameError."""
    # Imported here: other masters do not need it.
    from airflow.providers.apache.spark.hooks import spark_submit  # noqa: PLC0415

    return hasattr(spark_submit, "kube_client")
