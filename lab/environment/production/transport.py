"""Certificates of the profile `production`, and TLS settings of Connect's REST API."""

from __future__ import annotations

from urllib.parse import urlsplit

from lab.environment.production.certificates import HOSTS
from lab.environment.production.profile import (
    BROKERS,
    CERTIFICATE_CLIENT,
    CONTROLLER,
    KEY_STORES,
    WORKERS,
    member_name,
    node_name,
)
from lab.environment.state import ALIASES, Lab, drill_port


def create_certificates(lab: Lab) -> None:
    """Create the lab's CA, and the certificates of brokers, controllers, Connect workers and of one client, once.

    A server's certificate is for this machine, and in a lab in containers for the server's host name, too.
    """
    record, servers = lab.load(), {f"drill-{alias}": drill_port(alias) for alias in ALIASES}
    for alias in ALIASES:
        servers |= {node_name(alias, CONTROLLER): f"controller_{alias}"}
        servers |= {node_name(alias, node): member_name(alias, node) for node in BROKERS}
        servers |= {f"connect-{name}": f"connect_{name}" for name in (member_name(alias, one) for one in WORKERS)}
    lab.authority.issue_once(CERTIFICATE_CLIENT)
    password = record.passwords[KEY_STORES]
    for name, service in servers.items():
        host = record.hosts.get(service)
        lab.authority.issue_once(name, hosts=(*HOSTS, *([host] if host else [])))
        lab.authority.key_store(name, password)
    lab.authority.trust_store(password)


def rest_settings(lab: Lab, worker: str, url: str) -> dict[str, str]:
    """Return a Connect worker's settings of its REST API over HTTPS; {} in the profile `small`.

    The workers of a group use the same settings to pass requests on to their leader, whose certificate they check.

    Args:
        lab: the lab.
        worker: name of the worker's process, also of its certificate.
        url: URL of its REST API.
    """
    record = lab.load()
    if not record.is_production:
        return {}
    password = record.passwords[KEY_STORES]
    return {
        "rest.advertised.listener": "https",
        "rest.advertised.port": str(urlsplit(url).port),
        "listeners.https.ssl.keystore.type": "PKCS12",
        "listeners.https.ssl.keystore.location": str(lab.authority.key_store(worker, password)),
        "listeners.https.ssl.keystore.password": password,
        "listeners.https.ssl.key.password": password,
        "listeners.https.ssl.truststore.type": "PKCS12",
        "listeners.https.ssl.truststore.location": str(lab.authority.trust_store(password)),
        "listeners.https.ssl.truststore.password": password,
    }
