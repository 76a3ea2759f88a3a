"""Change where clients connect."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from kafka_dr.actions.clients import tell_to_resume
from kafka_dr.actions.offsets.review import require_opened
from kafka_dr.hooks.site.routing import ClientRoute
from kafka_dr.procedure.entries import (
    ClientsRedirected,
)
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep


class RedirectClients(ProcedureStep):
    """Change where clients connect, read it back, and tell the applications to go on."""

    def act(self, procedure: Run, context: Any) -> ClientsRedirected:
        """The routing record names the target; the drain hook is told to resume."""
        require_opened(procedure)
        procedure.authority.hold()
        servers = procedure.systems.connections.kafka(procedure.topology.cluster(procedure.request.target).connection)[
            "bootstrap.servers"
        ]
        done = procedure.systems.routing.redirect(ClientRoute(procedure.request.target, servers))
        return ClientsRedirected(
            changed=done.changed,
            answered=done.answered,
            clients_see=asdict(done.seen),
            drain_hook=tell_to_resume(procedure),
        )
