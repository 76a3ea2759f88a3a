"""Read how Switchback and MirrorMaker 2 log in to the clusters, to Connect and to the site's hooks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from kafka_dr.domain.logins.login_view import LoginView, connector_logins, kafka_login
from kafka_dr.hooks.certificates import authorities_in
from kafka_dr.procedure.run import Run


def cluster_logins(procedure: Run) -> dict[str, LoginView]:
    """Return Switchback's login to the source and to the target, by alias."""
    topology, connections = procedure.topology, procedure.systems.connections
    logins = {}
    for alias in (procedure.request.source, procedure.request.target):
        name = topology.cluster(alias).connection
        config = connections.kafka(name)
        logins[alias] = kafka_login(name, config, _authorities(config))
    return logins


def other_logins(procedure: Run, configs: Mapping[str, Mapping[str, str]]) -> tuple[LoginView, ...]:
    """Return all other logins: of the probes, of connectors, and those over HTTP.

    Args:
        configs: connector -> its configuration.
    """
    topology, connections = procedure.topology, procedure.systems.connections
    probes = [
        topology.cluster(alias).probe_connection for alias in (procedure.request.source, procedure.request.target)
    ]
    logins = [kafka_login(name, connections.kafka(name)) for name in probes if name]
    logins += [login for name, config in sorted(configs.items()) for login in connector_logins(name, config)]
    return (*logins, *_http_logins(procedure))


def _http_logins(procedure: Run) -> Iterator[LoginView]:
    topology, connections = procedure.topology, procedure.systems.connections
    flows = [flow for flow in (procedure.flow, procedure.reverse_flow) if flow is not None]
    hooks = [hook for hook in (topology.drain, topology.source_probe, topology.fence_hook) if hook]
    names = [name for flow in flows for name in (*flow.workers, flow.stop_hook)]
    names += [hook.connection for hook in hooks]
    names += [topology.routing.connection] if topology.routing.kind == "http" else []
    api = topology.airflow_api.connection
    for name in sorted({name for name in (*names, api) if name}):
        url, user = "", ""
        # Airflow raises errors of its own; the step that needs the connection names them.
        with suppress(Exception):
            url, user, _ = connections.api_login(name) if name == api else connections.login(name)
        if user:
            yield LoginView(name, url.startswith("https:"), "password")


def _authorities(config: Mapping[str, Any]) -> dict[str, str]:
    if pem := config.get("ssl.ca.pem"):
        return authorities_in(str(pem).encode())
    path = Path(str(config.get("ssl.ca.location") or "probe"))
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return {
        one: subject for file in files if file.is_file() for one, subject in authorities_in(file.read_bytes()).items()
    }
