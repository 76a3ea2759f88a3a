"""Where Spark's executors run, by its Airflow connection, and what protects logins on their way there."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree as ET

from kafka_dr.errors import BadInput

SparkKind = Literal["task", "standalone", "yarn", "kubernetes"]
_KINDS: dict[str, SparkKind] = {
    r"local(\[.*\])?": "task",
    r"spark://.*|local-cluster\[.*\]": "standalone",
    r"yarn": "yarn",
    r"k8s://.*": "kubernetes",
}
#: Hadoop's settings without which YARN passes the secret of a Spark job on unencrypted.
_HADOOP_SETTINGS = {"hadoop.security.authentication": "kerberos", "hadoop.rpc.protection": "privacy"}
_PAGE = "runbooks/where_spark_runs.md"


@dataclass(frozen=True)
class SparkPlace:
    """Where a job's executors run.

    Attributes:
        kind: `task`: in the driver; `standalone`: on the workers of a Spark master.
        secret: text that driver and executors share; None in the task, and on YARN, where Spark makes one for each job.
        keytab: content of the Kerberos keytab by which the driver logs in; None without one.
    """

    kind: SparkKind
    secret: str | None = field(default=None, repr=False)
    keytab: bytes | None = field(default=None, repr=False)


def master_of(kind: str | None, host: str | None, port: int | None) -> str:
    """Return the master that Airflow's Spark provider makes of a connection's type, host and port."""
    master = f"{host}" if kind == "spark" and host and ("://" in host or not port) else f"{kind}://{host or ''}"
    return f"{master}:{port}" if port else master


def kind_of(connection_id: str, master: str) -> SparkKind:
    """Return where executors run with a master.

    Raises:
        BadInput: the master is none that Switchback knows.
    """
    kind = next((kind for pattern, kind in _KINDS.items() if re.fullmatch(pattern, master)), None)
    if kind is None:
        raise BadInput(
            f"Connection {connection_id} names no Spark master that Switchback knows",
            f"its type, host and port give the master {master}",
            "Set the connection's type to spark, and its host to local[*], spark://HOST:PORT, yarn or"
            f" k8s://https://HOST:PORT, as {_PAGE} shows.",
        )
    return kind


def refuse_cluster_mode(connection_id: str, mode: object) -> None:
    """Refuse the deploy mode `cluster`.

    Raises:
        BadInput: the connection has this mode.
    """
    if mode == "cluster":
        raise BadInput(
            f"Connection {connection_id} does not pass secrets on",
            "with deploy mode cluster the driver starts on another machine, which cannot read the private file with the"
            " clusters' logins",
            "Set deploy-mode to client in the connection's extra, or remove it: executors run on the cluster all the"
            " same.",
        )


def refuse_open_hadoop(connection_id: str, environment: Mapping[str, str] = os.environ) -> None:
    """Refuse a Hadoop that sends the secret of a Spark job over the network unencrypted.

    Raises:
        BadInput: no core-site.xml is readable in HADOOP_CONF_DIR or YARN_CONF_DIR, or it lacks Kerberos or encryption.
    """
    folder = environment.get("HADOOP_CONF_DIR") or environment.get("YARN_CONF_DIR") or ""
    path = Path(folder) / "core-site.xml"
    try:
        found = _hadoop_settings(path) if folder else {}
        seen = ", ".join(f"{name} is {found.get(name, 'not set')}" for name in _HADOOP_SETTINGS)
        seen = f"{seen} in {path}" if folder else "neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set"
    except (OSError, ET.ParseError) as error:
        found, seen = {}, f"{path} cannot be read: {type(error).__name__}"
    if any(found.get(name) != value for name, value in _HADOOP_SETTINGS.items()):
        raise BadInput(
            f"Connection {connection_id} would send the secret of Spark's jobs unencrypted",
            f"YARN hands this secret, which protects the clusters' logins, to the executors; {seen}",
            "Set hadoop.security.authentication to kerberos and hadoop.rpc.protection to privacy on the YARN cluster,"
            " and let HADOOP_CONF_DIR name its configuration on every machine where tasks run; or let Spark run in the"
            " task: local[*].",
        )


def _hadoop_settings(path: Path) -> dict[str, str]:
    properties = ET.parse(path).getroot().iter("property")  # noqa: S314 (the site's own file)
    return {(one.findtext("name") or "").strip(): (one.findtext("value") or "").strip() for one in properties}
