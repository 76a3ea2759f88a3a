"""Users, quotas and settings of topics as commands of kafka-configs; no command contains a password."""

from __future__ import annotations

from collections.abc import Mapping
from shlex import quote

from kafka_dr.domain.kafka_model.client_quotas import QuotaEntity
from kafka_dr.domain.manual.context import ToolAccess

_ENTITY_TYPES = {"user": "users", "client-id": "clients", "ip": "ips"}


def user_command(place: ToolAccess, user: str, mechanism: str, iterations: int) -> str:
    """Return the command that creates a user's SCRAM credentials, with a password that bash asks for.

    The tool reads the password from a pipe: other users see a process's arguments, and a file could stay. It takes one
    mechanism of a user at a time.
    """
    asked = f"read -rsp {quote(f'Password of {user}: ')} password"
    # The tool reads properties, in which a backslash is written twice.
    line = quote(f"{mechanism}=iterations={iterations},password=%s\\n")
    written = f'printf {line} "${{password//\\\\/\\\\\\\\}}"'
    changed = _alter(place, QuotaEntity((("user", user),)))
    return f"{asked} && {changed} --add-config-file <({written}); unset password"


def quota_commands(
    place: ToolAccess, entity: QuotaEntity, source: Mapping[str, float], target: Mapping[str, float]
) -> tuple[str, ...]:
    """Return commands that give an entity the limits `source` in place of its present limits `target`."""
    changed = [f"{key}={value:.15g}" for key, value in sorted(source.items()) if target.get(key) != value]
    gone = sorted(set(target) - set(source))
    return (
        *([f"{_alter(place, entity)} --add-config {quote(','.join(changed))}"] if changed else []),
        *([f"{_alter(place, entity)} --delete-config {quote(','.join(gone))}"] if gone else []),
    )


def topic_command(place: ToolAccess, topic: str, key: str, value: str) -> str:
    """Return the command that sets one setting of a topic."""
    written = f"{key}=[{value}]" if "," in value else f"{key}={value}"
    entity = f"--alter --entity-type topics --entity-name {quote(topic)}"
    return f"{place.tool('kafka-configs.sh')} {entity} --add-config {quote(written)}"


def _alter(place: ToolAccess, entity: QuotaEntity) -> str:
    parts = [
        f"--entity-type {_ENTITY_TYPES.get(kind, kind)} "
        + ("--entity-default" if name is None else f"--entity-name {quote(name)}")
        for kind, name in entity.parts
    ]
    return f"{place.tool('kafka-configs.sh')} --alter {' '.join(parts)}"
