"""Addresses of the stack of docker-compose.yaml: host names and ports in the containers, and published ports."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from lab.environment.state import DATABASE_HOST
from lab.errors import LabError

#: The lab's folder in every container.
ROOT = Path("/var/lib/switchback")
#: Service of docker-compose.yaml, by name of the lab's process.
SERVICES = {
    "broker-primary": "kafka-primary",
    "broker-standby": "kafka-standby",
    "connect-primary": "connect-primary",
    "connect-standby": "connect-standby",
}
SPARK_WORKERS = 2
DATABASES = ("airflow", "journal")
HOSTS = {
    "primary": "kafka-primary",
    "standby": "kafka-standby",
    "connect_primary": "connect-primary",
    "connect_standby": "connect-standby",
    "airflow": "airflow-api-server",
    "drain": "demo-clients",
    "spark_master": "spark-master",
    DATABASE_HOST: "postgres",
}
PORTS = {
    "primary": 9092,
    "standby": 9092,
    "controller_primary": 9093,
    "controller_standby": 9093,
    "connect_primary": 8083,
    "connect_standby": 8083,
    "airflow": 8080,
    "drain": 8090,
    "spark_master": 7077,
    DATABASE_HOST: 5432,
}
#: Published ports: name of the variable in docker-compose.yaml, and its default there.
PUBLISHED = {
    "primary": ("KAFKA_PRIMARY_PORT", 19092),
    "standby": ("KAFKA_STANDBY_PORT", 29092),
    "connect_primary": ("CONNECT_PRIMARY_PORT", 18083),
    "connect_standby": ("CONNECT_STANDBY_PORT", 28083),
    "airflow": ("AIRFLOW_PORT", 18080),
    "drain": ("DEMO_CLIENTS_PORT", 18090),
    "spark_page": ("SPARK_PAGE_PORT", 18081),
}


def published_ports(settings: Mapping[str, str]) -> dict[str, int]:
    """Return the ports published on the host, by name in PUBLISHED; an absent setting has its default there.

    Raises:
        LabError: a setting is not a port number.
    """
    ports = {}
    for name, (setting, default) in PUBLISHED.items():
        text = settings.get(setting) or str(default)
        if not text.isdigit() or not 1 <= int(text) <= 65535:
            raise LabError(f"{setting}={text!r} is not a port; give a number from 1 to 65535")
        ports[name] = int(text)
    return ports
