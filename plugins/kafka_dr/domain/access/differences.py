"""What clients would find otherwise on the target than on the source, each difference with commands to end it.

Invariants
1. The commands change the target only, and contain no password.
2. What a check of readiness refuses is a blocker, whatever is listed here: a difference alone refuses nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kafka_dr.domain.kafka_model.client_quotas import QuotaEntity
from kafka_dr.domain.manual.context import ToolAccess
from kafka_dr.domain.manual.setting_commands import quota_commands, user_command
from kafka_dr.domain.readiness.observation import Observation


@dataclass(frozen=True)
class Difference:
    """One difference between source and target, in one sentence, and shell commands that end it on the target."""

    text: str
    commands: tuple[str, ...]


def user_differences(o: Observation, target: ToolAccess) -> Iterator[Difference]:
    """Yield a difference for each user of a client whose SCRAM credentials the target lacks, or has with less work.

    Args:
        target: how Kafka's tools reach the target.
    """
    if o.source.scram is None or o.target.scram is None:
        return
    for user, mechanisms in sorted(o.source.scram.items()):
        there = o.target.scram.get(user, {})
        lacking = {name: count for name, count in mechanisms.items() if there.get(name, 0) < count}
        if f"User:{user}" in _exempt(o) or not lacking:
            continue
        yield Difference(
            f"User {user} has {_credentials(lacking)} on {o.source.alias}, and {_credentials(there)} on"
            f" {o.target.alias}. Passwords cannot be copied: who knows the password enters it where the command asks.",
            tuple(user_command(target, user, name, count) for name, count in sorted(lacking.items())),
        )


def quota_differences(o: Observation, target: ToolAccess) -> Iterator[Difference]:
    """Yield a difference for each entity with other client quotas on the target; none for exempt users.

    Args:
        target: how Kafka's tools reach the target.
    """
    if o.source.quotas is None or o.target.quotas is None:
        return
    for entity in sorted({*o.source.quotas, *o.target.quotas}, key=str):
        here, there = o.source.quotas.get(entity, {}), o.target.quotas.get(entity, {})
        if here == there or (entity.user is not None and f"User:{entity.user}" in _exempt(o)):
            continue
        yield Difference(
            f"Client quotas of {entity}: {_limits(here)} on {o.source.alias}, {_limits(there)} on {o.target.alias}."
            f"{_throttled(o, entity, here, there)}",
            quota_commands(target, entity, here, there),
        )


def _exempt(o: Observation) -> frozenset[str]:
    return o.exempt[o.source.alias] | o.exempt[o.target.alias]


def _credentials(mechanisms: Mapping[str, int]) -> str:
    return ", ".join(f"{name} with {count} iterations" for name, count in sorted(mechanisms.items())) or "none"


def _limits(limits: Mapping[str, float]) -> str:
    return ", ".join(f"{key} {value:.15g}" for key, value in sorted(limits.items())) or "none"


def _throttled(o: Observation, entity: QuotaEntity, here: Mapping[str, float], there: Mapping[str, float]) -> str:
    """Return what an entity's quotas mean after the move, as a sentence after a space; "" if they slow nobody down."""
    lower = [key for key, value in there.items() if value < here.get(key, float("inf"))]
    return f" Brokers of {o.target.alias} slow down {entity} earlier." if lower else ""
