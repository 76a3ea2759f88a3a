"""Connect clusters beside those of the lab, each of one worker, which run checkpoint connectors of its flows."""

from __future__ import annotations

import json
import os
import re
from typing import Any

import requests
import yaml

from lab.environment.connect import FLOWS, call_worker, connector_config, connector_name
from lab.environment.jvm import java_command
from lab.environment.ports import free_ports
from lab.environment.state import Lab, write_private
from tests.faults.support.scene import until
from tests.faults.support.stepping import more_connections_path

START_SECONDS = 240.0


def connection_of(alias: str) -> str:
    """Name of the Airflow connection of the Connect cluster with the checkpoint connector of the flow to a cluster."""
    return f"connect_checkpoints_{alias}"


def move_checkpoints(lab: Lab, alias: str) -> str:
    """Delete the checkpoint connector of the flow to a cluster, and create it in a Connect cluster of its own.

    The topology names the Connect cluster afterwards. Return its URL.
    """
    name = connector_name(*FLOWS[alias], "checkpoint")
    state = call_worker(lab, alias, "GET", f"/connectors/{name}/status").json()["connector"]["state"]
    call_worker(lab, alias, "DELETE", f"/connectors/{name}").raise_for_status()
    url = start_other_worker(lab, alias)
    create(url, name, connector_config(lab, *FLOWS[alias], "checkpoint"), state)
    until(lambda: state_at(url, name) == state, f"{name} to be {state}", 60.0)
    path = more_connections_path(lab)
    known = json.loads(path.read_text()) if path.exists() else {}
    write_private(path, json.dumps(known | {connection_of(alias): {"conn_type": "http", "host": url}}))
    change_flow(lab, alias, checkpoint={"connect": connection_of(alias), "name": name})
    return url


def change_flow(lab: Lab, alias: str, checkpoint: dict[str, str] | None = None, **changes: Any) -> None:
    """Change what the topology states of the flow to a cluster, and of its checkpoint connector; None removes it."""
    topology = yaml.safe_load(lab.topology.read_text())
    for flow in topology["flows"]:
        if flow["target"] == alias:
            flow.update(changes)
            for key in [key for key, value in changes.items() if value is None]:
                del flow[key]
            flow["connectors"].update({"checkpoint": checkpoint} if checkpoint else {})
    lab.topology.write_text(yaml.safe_dump(topology, sort_keys=False))


def create(url: str, name: str, config: dict[str, str], state: str) -> None:
    """Create a connector in the worker of this URL; while the worker rebalances, try again."""
    body = {"name": name, "config": config, "initial_state": state}
    until(lambda: requests.post(f"{url}/connectors", json=body, timeout=10).ok, f"{name} to be made", 60.0)


def process_of(alias: str) -> str:
    """Name of the process of the other worker beside a cluster."""
    return f"connect-checkpoints-{alias}"


def start_other_worker(lab: Lab, alias: str, url: str | None = None) -> str:
    """Start a Connect cluster of one worker beside that of a cluster, with topics of its own; return its URL.

    With its former URL a worker that was killed comes back.
    """
    name, url = process_of(alias), url or f"http://127.0.0.1:{free_ports(['checkpoints'])['checkpoints']}"
    properties = (lab.home / "arguments" / f"connect-{alias}.properties").read_text()
    properties = re.sub(r"(?m)^listeners=.*$", f"listeners={url}", properties)
    properties = properties.replace(f"__connect_{alias}", f"__connect_checkpoints_{alias}")
    path = lab.home / "arguments" / f"{name}.properties"
    write_private(path, properties)
    command = java_command(lab, name, "256m", "org.apache.kafka.connect.cli.ConnectDistributed", str(path))
    lab.processes.start(name, command, dict(os.environ), lab.home)
    until(lambda: serves(url), f"{name} to answer", START_SECONDS)
    return url


def serves(url: str) -> bool:
    """Whether a worker answers."""
    try:
        return requests.get(f"{url}/connectors", timeout=5).ok
    except requests.ConnectionError:
        return False


def state_at(url: str, name: str) -> str | None:
    """State of a connector, by its worker's URL; None while it is unknown."""
    answer = requests.get(f"{url}/connectors/{name}/status", timeout=10)
    return answer.json()["connector"]["state"] if answer.ok else None


def seen(lab: Lab) -> dict[str, str | None]:
    """Connector -> its state, on all workers of both flows; the heartbeat connectors are left out."""
    others = json.loads(more_connections_path(lab).read_text()).values()
    urls = [*(lab.connect_url(alias) for alias in FLOWS), *(other["host"] for other in others)]
    names = [(url, name) for url in urls for name in requests.get(f"{url}/connectors", timeout=10).json()]
    return {name: state_at(url, name) for url, name in names if "heartbeat" not in name}
