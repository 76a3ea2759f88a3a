"""A site's brokers or workers as one: killed and started together, whatever the lab's profile."""

from __future__ import annotations

from lab.environment.brokers import start_broker
from lab.environment.connect import start_worker
from lab.environment.production.nodes import start_nodes
from lab.environment.production.profile import BROKERS, WORKERS, member_name
from lab.environment.state import Lab


def process_names(lab: Lab, name: str) -> list[str]:
    """Return the names of the processes that `broker-ALIAS` or `connect-ALIAS` stands for.

    In the profile `production` these are all brokers of the site with its controller (or ZooKeeper), or all its
    Connect workers.
    """
    kind, _, alias = name.partition("-")
    record = lab.load()
    if not record.is_production:
        return [name]
    if kind == "broker":
        return [record.controller_process(alias), *(f"broker-{member_name(alias, node)}" for node in BROKERS)]
    return [f"{kind}-{member_name(alias, number)}" for number in WORKERS]


def start_processes(lab: Lab, name: str) -> None:
    """Start what `broker-ALIAS` or `connect-ALIAS` stands for, unless it runs, and wait until it answers."""
    kind, _, alias = name.partition("-")
    if kind == "connect":
        for number in WORKERS if lab.load().is_production else WORKERS[:1]:
            start_worker(lab, alias, number)
    elif lab.load().is_production:
        start_nodes(lab, alias)
    else:
        start_broker(lab, alias)
