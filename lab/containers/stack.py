"""Addresses of the stack of docker-compose.yaml: host names and ports in the containers, and published ports.

The profile `production` is docker-compose.yaml alone; `small` is docker-compose.small.yaml laid over it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.environment.production.profile import (
    BROKERS,
    PRODUCTION,
    REDIS,
    SMALL,
    STORE,
    WORKERS,
    certificates_port,
    member_name,
)
from lab.environment.state import ALIASES, DATABASE_HOST
from lab.errors import LabError

#: The lab's folder in every container.
ROOT = Path("/var/lib/switchback")
SPARK_WORKERS = 2
DATABASES = ("airflow", "journal")
#: Services of the profile `production` that run Airflow's tasks; none of them shares a folder with another.
TASK_WORKERS = ("airflow-worker-1", "airflow-worker-2")
#: Services of Spark's cluster.
SPARK_MACHINES = ("spark-master", *(f"spark-worker-{number + 1}" for number in range(SPARK_WORKERS)))
#: First ports that are published for a site's brokers and Connect workers; the others of a site follow.
_KAFKA_OUTSIDE = {"primary": 19092, "standby": 29092}
_CONNECT_OUTSIDE = {"primary": 18083, "standby": 28083}
_KAFKA, _CERTIFICATES, _CONTROLLER, _CONNECT = 9092, 9095, 9093, 8083


@dataclass(frozen=True)
class StackServices:
    """What one profile of the stack consists of.

    Attributes:
        hosts: service of docker-compose.yaml by name of the lab's service; others are in the same container.
        ports: port in the container by name of the lab's service.
        published: by name of the lab's service, the variable in docker-compose.yaml with the published port, and its
            default there.
        sites: services of docker-compose.yaml by what tests kill and start together, such as `broker-primary`.
    """

    hosts: Mapping[str, str]
    ports: Mapping[str, int]
    published: Mapping[str, tuple[str, int]]
    sites: Mapping[str, tuple[str, ...]]


def _small() -> StackServices:
    hosts = {"airflow": "airflow-api-server", "drain": "demo-clients", "spark_master": "spark-master"}
    hosts[DATABASE_HOST] = "postgres"
    ports = {"airflow": 8080, "drain": 8090, "spark_master": 7077, DATABASE_HOST: 5432}
    published = {
        "airflow": ("AIRFLOW_PORT", 18080),
        "drain": ("DEMO_CLIENTS_PORT", 18090),
        "spark_page": ("SPARK_PAGE_PORT", 18081),
    }
    sites: dict[str, tuple[str, ...]] = {}
    for alias in ALIASES:
        hosts |= {alias: f"kafka-{alias}", f"connect_{alias}": f"connect-{alias}"}
        ports |= {alias: _KAFKA, f"controller_{alias}": _CONTROLLER, f"connect_{alias}": _CONNECT}
        published[alias] = (f"KAFKA_{alias.upper()}_PORT", _KAFKA_OUTSIDE[alias])
        published[f"connect_{alias}"] = (f"CONNECT_{alias.upper()}_PORT", _CONNECT_OUTSIDE[alias])
        sites |= {f"broker-{alias}": (f"kafka-{alias}",), f"connect-{alias}": (f"connect-{alias}",)}
    return StackServices(hosts, ports, published, sites)


def _production() -> StackServices:
    small = _small()
    hosts, ports = {**small.hosts, REDIS: "redis", STORE: "store"}, {**small.ports, REDIS: 6379, STORE: 8333}
    published, sites = {**small.published, STORE: ("STORE_PORT", 18333)}, {**small.sites}
    for alias in ALIASES:
        hosts[f"controller_{alias}"] = controller = f"kafka-{alias}-controller"
        for node in BROKERS:
            name, variable = member_name(alias, node), member_name(alias, node).upper().replace("-", "_")
            hosts |= {name: f"kafka-{name}", certificates_port(alias, node): f"kafka-{name}"}
            ports |= {name: _KAFKA, certificates_port(alias, node): _CERTIFICATES}
            published[name] = (f"KAFKA_{variable}_PORT", _KAFKA_OUTSIDE[alias] + node - 1)
        for number in WORKERS:
            name, variable = member_name(alias, number), member_name(alias, number).upper().replace("-", "_")
            hosts[f"connect_{name}"], ports[f"connect_{name}"] = f"connect-{name}", _CONNECT
            published[f"connect_{name}"] = (f"CONNECT_{variable}_PORT", _CONNECT_OUTSIDE[alias] + number - 1)
        sites[f"broker-{alias}"] = (controller, *(f"kafka-{member_name(alias, node)}" for node in BROKERS))
        sites[f"connect-{alias}"] = tuple(f"connect-{member_name(alias, number)}" for number in WORKERS)
    return StackServices(hosts, ports, published, sites)


SERVICES = {SMALL: _small(), PRODUCTION: _production()}


def published_ports(settings: Mapping[str, str], profile: str = SMALL) -> dict[str, int]:
    """Return the ports published on the host, by service of the lab; an absent setting has its default.

    Raises:
        LabError: a setting is not a port number.
    """
    ports = {}
    for name, (setting, default) in SERVICES[profile].published.items():
        text = settings.get(setting) or str(default)
        if not text.isdigit() or not 1 <= int(text) <= 65535:
            raise LabError(f"{setting}={text!r} is not a port; give a number from 1 to 65535")
        ports[name] = int(text)
    return ports
