"""Run round trips on the lab in containers; the rehearsal and the checker run on the host."""

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
from lab.environment.progress import wait_until
from lab.environment.state import Lab
from lab.errors import LabError
from lab.rehearsal.round_trip import RoundTrips

REQUEST_SECONDS = 40.0
ANSWER_SECONDS = 120.0
_CLIENTS = "demo-clients"


class ServiceClients:
    """The demo application in its container; its clients are set over HTTP.

    Args:
        lab: the lab with the service demo-clients.
        folder: folder for the copies of the clients' event logs.
    """

    def __init__(self, lab: ContainerLab, folder: Path) -> None:
        self._lab, self._folder = lab, folder

    def start(self, topics: Sequence[str], groups: Sequence[str]) -> None:
        """Replace the running clients by one producer and one consumer per group."""
        self._employ(topics, groups)

    def collect(self) -> None:
        """Copy the clients' event logs so far."""
        inside = ROOT / "clients" / "logs" / self._folder.name
        self._lab.stack.copy_out(_CLIENTS, inside, self._folder)

    def stop(self) -> None:
        """Stop every client, and copy the event logs; a container that does not answer runs no client."""
        with suppress(requests.RequestException):
            self._employ((), ())
        self.collect()

    def _employ(self, topics: Sequence[str], groups: Sequence[str]) -> None:
        document = {"name": self._folder.name, "topics": list(topics), "groups": list(groups)}
        with requests.Session() as session:
            session.trust_env = False
            answer = session.put(f"{self._lab.drain_url}/clients", json=document, timeout=REQUEST_SECONDS)
        if not answer.ok:
            raise LabError(f"{_CLIENTS} refused {document}: {answer.status_code} {answer.text[:300]}")


class ContainerRoundTrips(RoundTrips):
    """Round trips whose sites are containers, killed and started again."""

    lab: ContainerLab

    def open_lab(self, state: Path) -> Lab:
        """Return the lab of the folder's stack.

        Raises:
            LabError: the folder has no stack.
        """
        stack = Stack.of(state)
        if stack is None:
            raise LabError(f"{state} has no compose.json, so it belongs to no stack of containers")
        return ContainerLab(state, stack)

    def make_application(self) -> Clients:
        """Return the service demo-clients; its log folder has the name of the folder of the rehearsal's clients."""
        return ServiceClients(self.lab, self._client_folder)

    def kill(self, *names: str) -> None:
        """Kill containers with -9; killed containers do not run until `start_again`."""
        self.lab.stack.kill(*(SERVICES[name] for name in names))

    def start_again(self, name: str) -> None:
        """Start a container and wait until it is healthy; a broker must also answer on its published port."""
        self.lab.stack.start(SERVICES[name])
        kind, _, alias = name.partition("-")
        if kind == "broker":
            client: Any = admin_client(self.lab, alias)
            wait_until(lambda: client.list_topics(timeout=2.0).brokers, f"{name} to answer", ANSWER_SECONDS)
