"""Change the routing record, so that clients connect to the target."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from kafka_dr.actions.clients import tell_to_resume
from kafka_dr.actions.offsets.review import require_opened
from kafka_dr.hooks.site.routing import ClientRoute
from kafka_dr.procedure.entries import ClientsRedirected
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep


class RedirectClients(ProcedureStep):
    """Point the routing record at the target, read the record back, and ask the applications to resume."""

    def act(self, procedure: Run, context: Any) -> ClientsRedirected:
        """Change the routing record, then ask the drain hook to resume the clients."""
        require_opened(procedure)
        procedure.authority.hold()
        if not procedure.approvals.routes_clients():
            return _not_redirected(procedure, str(procedure.request.choices["common_plan"]))
        servers = procedure.systems.connections.kafka(procedure.topology.cluster(procedure.request.target).connection)[
            "bootstrap.servers"
        ]
        route = ClientRoute(procedure.request.target, servers)
        redirect = procedure.systems.routing.redirect(route, anchor=procedure.anchors.newest)
        return ClientsRedirected(
            changed=redirect.changed,
            answered=redirect.answered,
            clients_see=asdict(redirect.seen),
            drain_hook=tell_to_resume(procedure),
        )


def _not_redirected(procedure: Run, common_id: str) -> ClientsRedirected:
    """Return the routing record as it is: by the common plan it leads to another pair's target."""
    return ClientsRedirected(
        changed=False,
        answered=f"nothing was written: by the plan of {common_id}, the routing record leads to another cluster, and"
        f" their owners point clients at {procedure.request.target}",
        clients_see=asdict(procedure.systems.routing.current()),
        drain_hook=tell_to_resume(procedure),
    )
