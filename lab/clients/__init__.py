"""The demo application: producers and consumers that follow the routing record and can be asked to stop.

One supervising process watches the routing record, serves the drain hook and keeps one child process for each client:

- `POST /drain {"procedure_id"}`: producers flush and stop, consumers commit and leave; answered at once with the state.
- `POST /resume {"procedure_id"}`: clients start again on the cluster that the routing record names.
- `GET /source`: `{"reachable", "writable", "detail"}`: how the cluster looks that the clients use; the source probe of
  unplanned procedures.
- `GET /state`: `{"producers": {"running": n}, "consumers": {"running": n}, "drained_for": id or null, "detail":
  {...}}`.

Each call may be repeated. A routing record that changed while drained resumes by itself.
"""

from __future__ import annotations

from lab.clients.application import Application, ClientPlan
from lab.clients.supervisor import run_application

__all__ = ["Application", "ClientPlan", "run_application"]
