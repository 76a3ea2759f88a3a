"""The demo application: producers and consumers that follow the routing record and stop on request.

A supervisor process watches the routing record, serves the drain hook and runs one child process for each client:

- `POST /drain {"procedure_id"}`: producers flush and stop, consumers commit and leave; returns the state at once.
- `POST /resume {"procedure_id"}`: clients start again on the cluster that the routing record names.
- `GET /source`: `{"reachable", "writable", "detail"}` of the clients' current cluster; the source probe of unplanned
  procedures.
- `GET /state`: `{"producers": {"running": n}, "consumers": {"running": n}, "drained_for": id or null, "detail":
  {...}}`.

Each call may be repeated. A changed routing record ends a drain: clients resume without a call.
"""

from __future__ import annotations

from lab.clients.application import Application, ClientPlan
from lab.clients.supervisor import run_application

__all__ = ["Application", "ClientPlan", "run_application"]
