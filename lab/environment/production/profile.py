"""Names of the profiles; names of the processes, ports and certificates that only `production` has."""

from __future__ import annotations

SMALL, PRODUCTION = PROFILES = ("small", "production")
#: Node ids of a site's brokers in the profile `production`, and of its only controller.
BROKERS = (1, 2, 3)
CONTROLLER = 100
#: Numbers of a site's Connect workers in the profile `production`.
WORKERS = (1, 2)
REPLICAS = 3
MIN_INSYNC_REPLICAS = 2
#: Name of the server in the lab's hosts, ports and processes; its two databases, each owned by a role of its name.
POSTGRES = "postgres"
#: Names of Celery's queue and of the S3-compatible store in the hosts, ports and passwords of a lab in containers.
REDIS, STORE = "redis", "store"
#: The store's bucket, and its only user.
BUCKET = STORE_USER = "switchback"
DATABASES = ("airflow", "journal")
SUPERVISOR = "airflow-supervisor"
#: A client that logs in with a certificate: name in the status document, and of the certificate's subject.
CERTIFICATE_CLIENT = "cert-producer"
#: Name of the password of Java's key stores among the lab's passwords.
KEY_STORES = "key_stores"


def member_name(alias: str, number: int) -> str:
    """Return the name of a broker or worker of a site: the alias for the first, else such as `primary-2`."""
    return alias if number == 1 else f"{alias}-{number}"


def certificates_port(alias: str, node: int) -> str:
    """Return the name of the port on which a broker takes clients with certificates."""
    return f"certificates_{member_name(alias, node)}"


def node_name(alias: str, node: int) -> str:
    """Return the name in the certificate of a site's broker or controller."""
    return f"controller-{alias}" if node == CONTROLLER else f"broker-{alias}-{node}"


def node_names(alias: str) -> list[str]:
    """Return the names in the certificates of a site's brokers and controller, which are super users."""
    return [node_name(alias, node) for node in (*BROKERS, CONTROLLER)]


def extra_ports(aliases: tuple[str, ...]) -> list[str]:
    """Return the names of the ports that only the profile `production` has."""
    names = [POSTGRES]
    for alias in aliases:
        names += [member_name(alias, node) for node in BROKERS[1:]]
        names += [certificates_port(alias, node) for node in BROKERS]
        names += [f"connect_{member_name(alias, number)}" for number in WORKERS[1:]]
    return names
