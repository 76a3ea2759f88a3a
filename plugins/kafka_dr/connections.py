"""Reads Airflow connections, and returns them in the forms that hooks need; no other module reads connections."""

from __future__ import annotations

import re
from typing import Any

from airflow.sdk import BaseHook

from kafka_dr.config.params import Request
from kafka_dr.config.topology import Topology
from kafka_dr.errors import BadInput
from kafka_dr.hooks.http_tls import HttpTls
from kafka_dr.procedure.systems import Systems


class Connections:
    """Reads Airflow connections by the ids in the topology."""

    def systems(self, request: Request, topology: Topology) -> Systems:
        """Return the clients of all outside systems for one run, whose checked params are `request`."""
        return Systems(request, topology, self)

    def kafka(self, connection_id: str) -> dict[str, Any]:
        """Return librdkafka's configuration, the extra of a `kafka` connection; BadInput if no servers are in it."""
        config = BaseHook.get_connection(connection_id).extra_dejson
        if not config.get("bootstrap.servers"):
            raise BadInput(
                f"Connection {connection_id} names no cluster",
                "no bootstrap.servers in its extra",
                "Put librdkafka's configuration into the connection's extra.",
            )
        return dict(config)

    def login(self, connection_id: str) -> tuple[str, str, str]:
        """Return base URL, login and password of an `http` connection; login and password may be empty."""
        connection = BaseHook.get_connection(connection_id)
        host = connection.host or ""
        url = host if "://" in host else f"{connection.schema or 'http'}://{host}"
        if connection.port and f":{connection.port}" not in url:
            url = f"{url}:{connection.port}"
        return url.rstrip("/"), connection.login or "", connection.password or ""

    def tls(self, connection_id: str) -> HttpTls:
        """Return the certificates of an `http` connection: `verify`, `cert` and `key` in its extra."""
        return HttpTls.of_extra(BaseHook.get_connection(connection_id).extra_dejson, connection_id)

    def archive_options(self, connection_id: str) -> dict[str, Any]:
        """Return fsspec's options for the archive's file system, the extra of a connection."""
        return dict(BaseHook.get_connection(connection_id).extra_dejson)

    def check_spark(self, connection_id: str) -> None:
        """Refuse a `spark` connection that cannot hand logins to Spark in secret environment variables.

        For YARN and Kubernetes, Airflow's SparkSubmitHook writes environment variables to spark-submit's command line,
        where every user of the host can read them; in cluster mode it refuses environment variables.
        """
        connection = BaseHook.get_connection(connection_id)
        mode, advice = (
            connection.extra_dejson.get("deploy-mode"),
            "Name a local[*] or spark://... master with deploy mode client in the connection.",
        )
        master = f"{connection.conn_type}://{connection.host}" if connection.port else f"{connection.host}"
        if any(kind in f"{connection.conn_type} {master}" for kind in ("yarn", "k8s", "kubernetes")):
            raise BadInput(
                f"Connection {connection_id} would show secrets",
                f"with the master {master}, spark-submit takes the clusters' logins on its command line",
                advice,
            )
        if mode == "cluster":
            raise BadInput(
                f"Connection {connection_id} does not pass secrets on",
                "with deploy mode cluster, spark-submit does not give the clusters' logins to the job",
                advice,
            )

    def journal_url(self, connection_id: str) -> str:
        """Return the journal's SQLAlchemy URL: `url` in the connection's extra, else the connection's own URI."""
        connection = BaseHook.get_connection(connection_id)
        url = str(connection.extra_dejson.get("url") or connection.get_uri())
        # Airflow and libpq write `postgres://`, which SQLAlchemy does not know.
        return re.sub(r"^postgres://", "postgresql+psycopg://", url)
