"""The fingerprint of what a drill has tested: by it a later check sees what has changed since that drill.

Three classes of items: `voiding` items void a drill when they change; `sampled` items are kinds of topics and ACL
entries, of which a drill counts for those kinds that it had; `informational` items void nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kafka_dr.domain.kafka_model.acl import AclEntry
from kafka_dr.domain.readiness.observation import ClusterView, FlowView, Observation
from kafka_dr.domain.readiness.owners import MARKER_ENTRY
from kafka_dr.domain.readiness.state import Gravity, ReadinessFinding

#: Parts of names of settings that hold secrets. A renewed secret voids no drill, and no digest of it is kept, because
#: a weak password could be guessed from it.
_SECRET_NAMES = ("password", "secret", "jaas", "token", "credential", "key.pem", "keystore.key", "basic.auth")

#: End of the item that each connector has.
_CLASS = ".connector.class"


@dataclass(frozen=True)
class Fingerprint:
    """Items that a drill was made under, or that are in place now.

    Attributes:
        voiding: item -> value; None: the value could not be read.
        sampled: kind of item, such as `topics` -> its kinds, sorted.
        informational: item -> value.
    """

    voiding: Mapping[str, str | None]
    sampled: Mapping[str, tuple[str, ...]]
    informational: Mapping[str, str]

    def as_dict(self) -> dict[str, Any]:
        """Return the fingerprint as a JSON object, the form in which a drill keeps it."""
        kinds = {name: list(kinds) for name, kinds in self.sampled.items()}
        return {"voiding": dict(self.voiding), "sampled": kinds, "informational": dict(self.informational)}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Fingerprint:
        """Return the fingerprint in a JSON object; what the object lacks is empty."""
        sampled = {name: tuple(kinds) for name, kinds in value.get("sampled", {}).items()}
        return cls(value.get("voiding", {}), sampled, value.get("informational", {}))


def fingerprint_of(o: Observation, others: Mapping[str, str | None]) -> Fingerprint:
    """Return the fingerprint of what was observed.

    Args:
        others: voiding items that the observation lacks: item -> value, None if it could not be read.
    """
    voiding: dict[str, str | None] = {
        "naming.policy": o.naming_policy,
        "naming.separator": o.naming_separator,
        **({} if o.policy_class is None else {"naming.policy_class": o.policy_class}),
        **_worker_items(o.flow),
        **{
            name: value
            for connector in o.flow.connectors
            for name, value in _settings(connector.name, connector.config)
        },
        **{f"{view.alias}.authorizer": _authorizer(view) for view in (o.source, o.target)},
        **{f"{view.alias}.cluster_id": view.cluster_id for view in (o.source, o.target)},
        **others,
    }
    topics = {_topic_kind(o.source.topics[topic].configs) for topic in o.scope}
    # The watcher sets its marker again whenever somebody has deleted it.
    entries = {entry for view in (o.source, o.target) for entry in view.rules.entries} - {MARKER_ENTRY}
    acls = {_acl_kind(entry) for entry in entries}
    counts = {"topics": len(o.scope), "groups": len(o.groups), "partitions": len(o.last.source_ends)}
    brokers = {f"{view.alias}.brokers": len(view.brokers) for view in (o.source, o.target)}
    informational = {name: str(count) for name, count in {**counts, **brokers}.items()}
    return Fingerprint(voiding, {"topics": _sorted(topics), "acls": _sorted(acls)}, informational)


def changes_since(then: Fingerprint, now: Fingerprint) -> Iterator[ReadinessFinding]:
    """Yield a finding for each item by which a drill no longer counts; an item unknown at either time is one, too.

    All settings of a connector that is new or gone are one item, named as the connector.
    """
    connectors = {
        item.removesuffix(_CLASS) for item in then.voiding.keys() ^ now.voiding.keys() if item.endswith(_CLASS)
    }
    for name in sorted(connectors):
        states = "there, now absent" if f"{name}{_CLASS}" in then.voiding else "absent, now there"
        text = f"connector {name}: at the last drill {states}"
        yield ReadinessFinding("changed_since_drill", Gravity.UNVERIFIED, name, text)
    others = {item for item in {*then.voiding, *now.voiding} if not item.startswith(tuple(f"{c}." for c in connectors))}
    for item in sorted(others):
        before, after = (side.voiding.get(item, "absent") for side in (then, now))
        if after is None:
            yield ReadinessFinding("changed_since_drill", Gravity.UNKNOWN, item, f"{item} could not be read today")
        elif before != after:
            text = f"{item}: at the last drill {before or 'not known'}, now {after}"
            yield ReadinessFinding("changed_since_drill", Gravity.UNVERIFIED, item, text)
    for item, kinds in sorted(now.sampled.items()):
        for kind in sorted(set(kinds) - set(then.sampled.get(item, ()))):
            text = f"{item}: the last drill had none of the kind {kind}, now there are some"
            yield ReadinessFinding("changed_since_drill", Gravity.UNVERIFIED, f"{item} {kind}", text)


def digest_of_text(text: str) -> str:
    """Return the first 16 digits of a text's SHA-256: enough to see a change."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _worker_items(flow: FlowView) -> dict[str, str | None]:
    workers = zip(("source", "checkpoint"), flow.workers, strict=False)
    return {
        f"worker.{kind}.{name}": value
        for kind, worker in workers
        for name, value in (("version", worker.version or None), ("cluster_id", worker.cluster_id))
    }


def _settings(connector: str, config: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for key, value in sorted(config.items()):
        if not any(part in key.lower() for part in _SECRET_NAMES):
            yield f"{connector}.{key}", value


def _authorizer(view: ClusterView) -> str:
    rules = view.rules
    if rules.authorizer:
        return f"ACL entries{', everyone allowed where none is' if rules.allow_everyone else ''}"
    return "rights without ACL entries" if rules.rights_elsewhere else "none"


def _topic_kind(configs: Mapping[str, str]) -> str:
    policy, time = configs.get("cleanup.policy", "delete"), configs.get("message.timestamp.type", "CreateTime")
    return f"cleanup.policy={policy} message.timestamp.type={time}"


def _acl_kind(entry: AclEntry) -> str:
    name = "*" if entry.name == "*" else entry.pattern
    return f"{entry.permission} {entry.operation} {entry.resource_type} {name}"


def _sorted(kinds: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(kinds))
