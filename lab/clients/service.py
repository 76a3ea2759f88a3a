"""The demo application as a service: `python -m lab.clients.service FOLDER`.

In addition to the hooks of `lab.clients` the service has

- `GET /route`, `PUT /route {"cluster", "bootstrap_servers", "version"}`: read or replace the routing record that the
  clients follow;
- `PUT /clients {"name", "topics", "groups"}`: replace the running clients by one producer and one consumer per group,
  which write their event logs into the folder `name`.

FOLDER contains application.json (written by `lab.containers.prepare`) and the state that remains after a restart: the
routing record, the clients to run, and the id of the procedure for which clients were stopped.
"""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from lab.clients.application import Application, ClientPlan, DemoRoute, write_whole
from lab.clients.drain_hook import DrainHook, serve_hooks
from lab.clients.supervisor import Supervisor

ROUTE, CLIENTS, DRAINED, APPLICATION = "routing.json", "clients.json", "drained.json", "application.json"
_NAME = re.compile(r"[a-z0-9-]{1,100}")


class Service(Supervisor):
    """The demo application whose settings and state are in one folder."""

    def __init__(self, folder: Path) -> None:
        """Read the settings and the clients to run from `folder`; no client is started yet."""
        self._folder = folder
        settings = json.loads((folder / APPLICATION).read_text(encoding="utf-8"))
        name, clients = clients_of(json.loads((folder / CLIENTS).read_text(encoding="utf-8")))
        prefixes = {alias: tuple(prefix_list) for alias, prefix_list in settings["prefixes"].items()}
        logs = self._logs_of(name)
        logs.mkdir(parents=True, exist_ok=True)
        self.url: str = settings["url"]
        application = Application(clients, settings["properties"], folder / ROUTE, self.url, prefixes, logs)
        super().__init__(application, folder / DRAINED)

    def route(self) -> dict[str, Any]:
        """Return the routing record: `cluster` (alias), `bootstrap_servers` and `version`."""
        record: dict[str, Any] = json.loads((self._folder / ROUTE).read_text(encoding="utf-8"))
        return record

    def redirect(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Replace the routing record atomically and return the new record, which clients follow at once.

        If the record has changed, clients that the drain hook had stopped start on the record's cluster.
        """
        new_route = DemoRoute.of(record)
        changed = new_route != DemoRoute.of(self.route())
        write_whole(self._folder / ROUTE, record)
        if changed:
            self.stay_stopped(None)
        return self.route()

    def employ_named(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Replace the running clients by the clients of a `/clients` document; return the state as `GET /state` does.

        The document is stored: the same clients run after a restart.
        """
        name, clients = clients_of(document)
        write_whole(self._folder / CLIENTS, document)
        return self.employ(clients, self._logs_of(name))

    def run(self) -> None:
        """Run clients and hooks until SIGTERM or SIGINT."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.end())
        with serve_hooks(self.url, self, ServiceHook):
            self.watch()

    def _logs_of(self, name: str) -> Path:
        return self._folder / "logs" / name


class ServiceHook(DrainHook):
    """The drain hook with two more paths: `/route` and `/clients`."""

    application: ClassVar[Service]

    def do_GET(self) -> None:  # noqa: N802 (http.server calls it so)
        """Answer `/route` with the routing record, and other paths like the drain hook."""
        if self.path == "/route":
            return self.answer(200, self.application.route())
        return super().do_GET()

    def do_PUT(self) -> None:  # noqa: N802 (http.server calls it so)
        """Replace the routing record (`/route`) or the clients (`/clients`); answer 400 to an invalid document."""
        act = {"/route": self.application.redirect, "/clients": self.application.employ_named}.get(self.path)
        if act is None:
            return self.answer_unknown()
        try:
            return self.answer(200, act(self.document()))
        except (KeyError, TypeError, ValueError) as error:
            return self.answer(400, {"error": f"the body is not a valid document for {self.path}: {error!r}"})


def clients_of(document: Mapping[str, Any]) -> tuple[str, tuple[ClientPlan, ...]]:
    """Return the log folder's name and the clients of a `/clients` document; without topics the clients are ().

    Raises:
        KeyError, TypeError, ValueError: the document is invalid.
    """
    name, topics, groups = document["name"], document["topics"], document["groups"]
    if not _NAME.fullmatch(name):
        raise ValueError(f"name {name!r} must consist of at most 100 letters a-z, digits and hyphens")
    if not all(isinstance(text, str) for text in [*topics, *groups]):
        raise TypeError("topics and groups must be lists of names")
    if not topics:
        return name, ()
    consumers = [ClientPlan(f"consumer-{number}", tuple(topics), group) for number, group in enumerate(groups)]
    return name, (ClientPlan("producer-0", tuple(topics)), *consumers)


def main(arguments: Sequence[str]) -> None:
    """Run the service of the folder that is the only argument."""
    Service(Path(arguments[0])).run()


if __name__ == "__main__":
    main(sys.argv[1:])
