"""The rights of Switchback's principals as the part of the page rights.md that is made from `rights.py`."""

from __future__ import annotations

from collections.abc import Iterable

from kafka_dr.domain.doctor.rights import (
    CLUSTER_NAME,
    NEEDED,
    OPTIONAL,
    OWN_PREFIX,
    PROBE_OPERATIONS,
    NeededRight,
)
from kafka_dr.domain.kafka_model.acl import ANY_HOST, ANY_NAME, AclEntry
from kafka_dr.domain.manual.acl_commands import acl_commands
from kafka_dr.domain.manual.context import ToolAccess
from kafka_dr.vocabulary import PROBE_TOPIC

_PLACE = ToolAccess("", "BROKER:9092", "admin.properties")
_ORCHESTRATOR, _PROBE = "User:switchback", "User:switchback-probe"


def rights_sections() -> str:
    """Return the sections of the page, as Markdown: for every procedure, by choice, own topics, and the probe."""
    own = [AclEntry("topic", OWN_PREFIX, "prefixed", _ORCHESTRATOR, ANY_HOST, "all", "allow")]
    probe = [
        AclEntry("topic", PROBE_TOPIC, "literal", _PROBE, ANY_HOST, operation, "allow")
        for operation in PROBE_OPERATIONS
    ]
    return "\n\n".join(
        (
            "## Every procedure",
            _table(NEEDED),
            _code(acl_commands(_PLACE, "add", map(_entry, NEEDED))),
            f"On topics beginning with `{OWN_PREFIX}`, Switchback's own, all operations:",
            _code(acl_commands(_PLACE, "add", own)),
            "## By choice",
            _table(OPTIONAL),
            _code([command for right in OPTIONAL for command in acl_commands(_PLACE, "add", [_entry(right)])]),
            "## The probe",
            "An ordinary client, which proves a fence on every broker. No other right, and no super user:",
            _code(acl_commands(_PLACE, "add", probe)),
        )
    )


def _table(rights: Iterable[NeededRight]) -> str:
    rows = [f"| {_kind(right)} | {right.operation.upper()} | {right.purpose} |" for right in rights]
    return "\n".join(("| on | operation | without it |", "| --- | --- | --- |", *rows))


def _kind(right: NeededRight) -> str:
    kind = right.resource_type.replace("_", " ")
    return "the cluster" if kind == "cluster" else f"all {kind}s"


def _entry(right: NeededRight) -> AclEntry:
    name = CLUSTER_NAME if right.resource_type == "cluster" else ANY_NAME
    return AclEntry(right.resource_type, name, "literal", _ORCHESTRATOR, ANY_HOST, right.operation, "allow")


def _code(commands: Iterable[str]) -> str:
    return "\n".join(("```", *commands, "```"))
