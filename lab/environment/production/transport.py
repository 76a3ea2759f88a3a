"""Certificates of the profile `production`, and TLS settings of Connect's REST API."""

from __future__ import annotations

from urllib.parse import urlsplit

from lab.environment.production.profile import CERTIFICATE_CLIENT, KEY_STORES, WORKERS, member_name, node_names
from lab.environment.state import ALIASES, Lab


def create_certificates(lab: Lab) -> None:
    """Create the lab's CA, and the certificates of brokers, controllers, Connect workers and of one client, once."""
    names = [name for alias in ALIASES for name in node_names(alias)]
    workers = [f"connect-{member_name(alias, number)}" for alias in ALIASES for number in WORKERS]
    workers += [f"drill-{alias}" for alias in ALIASES]
    for name in (*names, *workers, CERTIFICATE_CLIENT):
        lab.authority.issue_once(name)
    password = lab.load().passwords[KEY_STORES]
    for name in (*names, *workers):
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
