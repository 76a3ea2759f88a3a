"""Whether Connect has the flows' connectors and can be controlled, and the shared DNS name can be redirected."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from kafka_dr.actions.doctor.site import Site
from kafka_dr.actions.doctor.units import Unit
from kafka_dr.config.topology import Flow
from kafka_dr.domain.doctor.finding import InstallationFinding, finding_of
from kafka_dr.domain.readiness.blocker import missing_connector, worker_too_old
from kafka_dr.domain.routing.dns_readiness import dns_blockers

_DNS_SECONDS = 5.0


def worker_units(site: Site) -> Iterator[Unit]:
    """Yield a unit for each flow in Connect, and one for a shared DNS name."""
    for flow in site.topology.flows:
        if flow.connect is not None:
            needs = tuple(f"reach {name}" for name in flow.workers)
            name = f"{flow.source}->{flow.target}"
            yield Unit("connect", name, partial(_connectors, site, flow), needs)
    routing = site.topology.routing
    if routing.kind == "dns":
        yield Unit("dns", routing.name, lambda: _dns(site), (f"connections {routing.connection}",))


def _connectors(site: Site, flow: Flow) -> Iterator[InstallationFinding]:
    connectors = site.systems.connectors_in_connect(flow)
    existing = connectors.existing()
    for name in connectors.names:
        if name not in existing:
            yield finding_of("connect", name, missing_connector(name))
    for worker, names in connectors.workers:
        present = [name for name in names if name in existing]
        # A change of no offset: it proves the right to change them, and changes nothing.
        if present and not worker.sets_offsets(present[0]):
            flow_name = f"{flow.source}->{flow.target}"
            yield finding_of("connect", flow_name, worker_too_old(flow_name, worker.worker().version))


def _dns(site: Site) -> Iterator[InstallationFinding]:
    routing = site.topology.routing
    assert routing.kind == "dns"  # noqa: S101 (for the type checker: the unit exists for no other kind)
    view = site.systems.dns_routing(routing).view(_DNS_SECONDS)
    for blocker in dns_blockers(view, view.leads_to or ""):
        yield finding_of("dns", blocker.reason, blocker)
