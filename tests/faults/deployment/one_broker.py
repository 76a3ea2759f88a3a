"""One broker of a lab by itself, for tests of logins and of Kafka's versions: no Connect, no Airflow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.environment.bring_up import PORTS, grant_rights, make_record
from lab.environment.brokers import start_broker
from lab.environment.logins.kinds import ISSUER
from lab.environment.logins.set_up import prepare_logins
from lab.environment.ports import free_ports
from lab.environment.progress import ProgressLines
from lab.environment.state import ALIASES, Lab
from lab.environment.take_down import down
from lab.environment.versions.releases import NEWEST
from lab.environment.versions.version_jars import fetch_versions


@contextmanager
def one_broker(state: Path, logins: str, version: str = NEWEST) -> Iterator[Lab]:
    """Start the primary's broker, and the issuer if clients log in by tokens; yield the lab, and take it down.

    Args:
        state: the lab's folder.
        logins: how clients log in, one of `CHOICES` in `lab/environment/logins/kinds.py`.
        version: the broker's version of Kafka.
    """
    lab, kafka = Lab(state), {ALIASES[0]: version}
    fetch_versions({"kafka": kafka}, ProgressLines())
    lab.save(make_record("identity", "read_uncommitted", free_ports([*PORTS, ISSUER]), logins=logins, kafka=kafka))
    try:
        prepare_logins(lab)
        start_broker(lab, ALIASES[0])
        grant_rights(lab, ALIASES[0])
        yield lab
    finally:
        down(state)
