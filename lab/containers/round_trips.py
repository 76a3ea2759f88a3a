"""Run round trips (failover and failback) on the lab in containers; rehearsal and checker run on the host."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import requests

from lab.clients.starting import Clients
from lab.containers.compose import ContainerLab, Stack
from lab.containers.stack import ROOT, SERVICES
from lab.environment.brokers import admin_client
from lab.environment.production.nodes import await_brokers, await_replicas
from lab.environment.progress import wait_until
from lab.environment.state import Lab
from lab.errors import LabError
from lab.rehearsal.round_trip import RoundTrips

REQUEST_SECONDS = 40.0
ANSWER_SECONDS = 120.0
_CLIENTS = "demo-clients"


class ServiceClients:
    """Controls the demo application's clients, which run in the container of the service demo-clients, over HTTP.

    Args:
        lab: the lab with the service demo-clients.
        folder: folder on the host for copies of the clients' event logs.
    """

    def __init__(self, lab: ContainerLab, folder: Path) -> None:
        self._lab, self._folder = lab, folder

    def start(self, topics: Sequence[str], groups: Sequence[str]) -> None:
        """Replace the running clients by one producer of the topics and one consumer of the topics per group."""
        self._employ(topics, groups)

    def collect(self) -> None:
        """Copy what the clients have written of their event logs by now from the container to the host's folder."""
        inside = ROOT / "clients" / "logs" / self._folder.name
        self._lab.stack.copy_out(_CLIENTS, inside, self._folder)

    def stop(self) -> None:
        """Stop every client, and copy the event logs; a container that does not answer is assumed to run no client."""
        with suppress(requests.RequestException):
            self._employ((), ())
        self.collect()

    def _employ(self, topics: Sequence[str], groups: Sequence[str]) -> None:
        document = {"name": self._folder.name, "topics": list(topics), "groups": list(groups)}
        with requests.Session() as session:
            session.trust_env = False
            answer = session.put(f"{self._lab.drain_url}/clients", json=document, timeout=REQUEST_SECONDS)
        if not answer.ok:
            raise LabError(
                f"{_CLIENTS} refused {document}: {answer.status_code} {answer.text[:300]}; correct these names of"
                f" topics and groups, or read the log of {_CLIENTS}"
            )


class ContainerRoundTrips(RoundTrips):
    """Runs round trips on brokers and Connect workers in containers, which are killed and started again."""

    lab: ContainerLab

    def open_lab(self, state: Path) -> Lab:
        """Return the lab in the containers of the stack that the folder `state` names in its file compose.json.

        Raises:
            LabError: the folder has no compose.json.
        """
        stack = Stack.of(state)
        if stack is None:
            raise LabError(
                f"{state} has no compose.json, so the folder belongs to no stack of containers; start a stack with:"
                " make compose-demo"
            )
        return ContainerLab(state, stack)

    def make_application(self) -> Clients:
        """Return the control of the service demo-clients, which copies event logs to this rehearsal's client folder."""
        return ServiceClients(self.lab, self._client_folder)

    def kill(self, *names: str) -> None:
        """Kill with -9 the containers that these names stand for; Docker does not restart them.

        `broker-ALIAS` stands for all brokers of a site and their controller, `connect-ALIAS` for all its workers.
        """
        self.lab.stack.kill(*(service for name in names for service in self._services(name)))

    def start_again(self, name: str) -> None:
        """Start the killed containers of `broker-ALIAS` or `connect-ALIAS`, and wait until each is healthy.

        Brokers must also answer on their published ports.
        """
        self.lab.stack.start(*self._services(name))
        kind, _, alias = name.partition("-")
        if kind == "broker":
            client: Any = admin_client(self.lab, alias)
            if self.lab.load().is_production:
                await_brokers(client, alias)
                await_replicas(client)
            else:
                wait_until(lambda: client.list_topics(timeout=2.0).brokers, f"{name} to answer", ANSWER_SECONDS)

    def _services(self, name: str) -> tuple[str, ...]:
        return SERVICES[self.lab.stack.profile].sites[name]
