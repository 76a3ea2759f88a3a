"""Read what a drill counts for: the fingerprint of a flow, of which an observation lacks a few items."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path

import kafka_dr
from kafka_dr.actions.readiness.signs import ca_of
from kafka_dr.domain.readiness.fingerprint import Fingerprint, digest_of_text, fingerprint_of
from kafka_dr.domain.readiness.observation import Observation
from kafka_dr.errors import SwitchbackError
from kafka_dr.procedure.run import Run


def read_fingerprint(procedure: Run, observation: Observation) -> Fingerprint:
    """Return the fingerprint of what is in place now; an item that cannot be read is None."""
    topology = procedure.topology
    others: dict[str, str | None] = {
        "naming": digest_of_text(repr(topology.naming)),
        "product": code_digest(),
        "worker.connection": ", ".join(procedure.flow.workers) or "dedicated mode",
    }
    for alias in (procedure.request.source, procedure.request.target):
        others[f"{alias}.kafka"] = _readable(lambda alias=alias: _kafka_of(procedure, alias))  # type: ignore[misc]
        others[f"{alias}.ca"] = _readable(lambda alias=alias: digest_of_text(ca_of(procedure, alias)))  # type: ignore[misc]
    return fingerprint_of(observation, others)


def _kafka_of(procedure: Run, alias: str) -> str:
    """Return what stands for the Kafka version of a cluster's brokers, because Kafka's protocol does not tell it."""
    systems = procedure.systems
    cluster = systems.source if alias == procedure.request.source else systems.target
    names = sorted(cluster.broker_settings())
    return f"{len(names)} broker settings, {digest_of_text(' '.join(names))}"


def _readable(read: Callable[[], str]) -> str | None:
    try:
        return read()
    except SwitchbackError:
        return None


@cache
def code_digest() -> str:
    """Return a digest of the code of Switchback that is installed here: the version of the product."""
    root, digest = Path(kafka_dr.__file__).parent, hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:16]
