"""How a person redirects clients with a shell: the command, and the files that it reads."""

from __future__ import annotations

import json
from shlex import quote
from typing import Any

from kafka_dr.config.routing import DnsRoutingSettings
from kafka_dr.domain.manual.context import ManualContext
from kafka_dr.domain.manual.nsupdate import nsupdate_script
from kafka_dr.errors import SwitchbackError
from kafka_dr.hooks.site.dns_servers import DNS_PORT
from kafka_dr.procedure.run import Run

_SCRIPT = "redirect.nsupdate"


def address_and_login(procedure: Run, connection: str) -> tuple[str, bool]:
    """Return a connection's URL (of several Connect workers the first), and whether it has a user name.

    If the connection cannot be read, the URL is `http://` and the connection's id.
    """
    try:
        url, user, _ = procedure.systems.connections.login(connection)
    except Exception:  # noqa: BLE001 (a plan without an address is better than none)
        return f"http://{connection}", False
    return url.partition(",")[0], bool(user)


def routing_command(procedure: Run) -> str:
    """Return the shell command that redirects clients."""
    routing = procedure.topology.routing
    if routing.kind == "file":
        return (
            f"cp routing.json {quote(routing.path + '.new')} && mv {quote(routing.path + '.new')} {quote(routing.path)}"
        )
    if routing.kind == "dns":
        return f'nsupdate -k "$DNS_KEY_FILE" {_SCRIPT}'
    url, login = address_and_login(procedure, routing.connection)
    who = ' -u "$ROUTING_USER"' if login else ""
    return f"curl -fsS{who} -X PUT -H 'Content-Type: application/json' --data @routing.json {quote(url + '/route')}"


def routing_files(procedure: Run, hand: ManualContext) -> dict[str, str]:
    """Return the files that the command reads, by name."""
    record, routing = _route(procedure, hand), procedure.topology.routing
    files = {"routing.json": json.dumps(record, indent=2) + "\n"}
    if routing.kind == "dns":
        files[_SCRIPT] = _nsupdate(procedure, routing, record)
    return files


def _route(procedure: Run, hand: ManualContext) -> dict[str, Any]:
    try:
        version = procedure.systems.routing.current().version + 1
    except SwitchbackError:
        version = 1
    return {"cluster": hand.target.alias, "bootstrap_servers": hand.target.servers, "version": version}


def _nsupdate(procedure: Run, routing: DnsRoutingSettings, record: dict[str, Any]) -> str:
    try:
        login = procedure.systems.connections.dns(routing.connection)
        server = (login.server, login.port)
    except Exception:  # noqa: BLE001 (a script without an address is better than none)
        server = (routing.connection, DNS_PORT)
    answers = routing.expected[record["cluster"]]
    shared, stored = (routing.name, answers), (routing.record_name, record)
    return nsupdate_script(server, routing.zone, shared, stored, routing.ttl_seconds)
