"""The demo application: producers and consumers that follow the routing record and obey the drain hook.

A supervisor process watches the routing record, runs one child process per client, and answers over HTTP:

- `POST /drain {"procedure_id"}`: producers flush and stop, consumers commit and leave their groups; the answer with the
  state comes at once, before the clients have stopped.
- `POST /resume {"procedure_id"}`: clients start again on the cluster that the routing record names.
- `GET /source`: `{"reachable", "writable", "detail"}` of the clients' current cluster; this call is the source probe
  of unplanned failovers.
- `GET /state`: `{"producers": {"running": n}, "consumers": {"running": n}, "drained_for": id or null, "detail":
  {...}}`.

Each call can be repeated. When the routing record changes, stopped clients run again without `/resume`.
"""

from __future__ import annotations

from lab.clients.application import Application, ClientPlan
from lab.clients.supervisor import run_application

__all__ = ["Application", "ClientPlan", "run_application"]
