"""Which requests to a Connect worker stay within a drill: by method, path, and what a configuration would copy."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kafka_dr.domain.drill.names import SEPARATOR
from kafka_dr.domain.drill.scope import DrillScope

_OF_ONE = re.compile(r"/connectors/([A-Za-z0-9._-]+)(?:/(config|stop|pause|resume|restart|offsets))?")
#: This request changes nothing: Connect states what is wrong with a configuration.
_VALIDATE = re.compile(r"/connector-plugins/[A-Za-z0-9.$_-]+/config/validate")
#: A pattern that matches one name: letters, digits, hyphens, underscores, and dots after a backslash.
_LITERAL = re.compile(r"(?:[A-Za-z0-9_-]|\\[.-])+")
_FILTERS = {
    "topic.filter.class": "org.apache.kafka.connect.mirror.DefaultTopicFilter",
    "group.filter.class": "org.apache.kafka.connect.mirror.DefaultGroupFilter",
}
#: By class of connector: settings without which it would change what is not the drill's.
_REQUIRED: Mapping[str, Mapping[str, str]] = {
    "org.apache.kafka.connect.mirror.MirrorSourceConnector": {
        "heartbeats.replication.enabled": "false",
        "sync.topic.acls.enabled": "false",
        "sync.topic.configs.enabled": "false",
    },
    "org.apache.kafka.connect.mirror.MirrorCheckpointConnector": {"sync.group.offsets.enabled": "false"},
}


_ALIASES = ("source.cluster.alias", "target.cluster.alias")
#: Settings by which a connector could write to topics of other names.
_LEADS_ELSEWHERE = ("transforms", "predicates", "offsets.storage.topic")


def require_request(scope: DrillScope, method: str, path: str, body: Any) -> None:
    """Raise OutsideDrill for a request to a Connect worker that could change what is not the drill's.

    Args:
        path: of the URL, below the worker's address.
        body: what is sent as JSON; None without a body.
    """
    call = f"the request {method} {path} to Connect"
    if method == "GET" or (method == "PUT" and _VALIDATE.fullmatch(path)):
        return
    if (method, path) == ("POST", "/connectors"):
        name, verb = str(body.get("name")), "config"
        config = body.get("config")
    elif one := _OF_ONE.fullmatch(path):
        name, verb, config = one[1], one[2], body
    else:
        scope.refuse(f"path {path!r}", call)
    scope.require_connector(name, call)
    if verb == "config" and method == "PATCH":
        if set(body) - {"enabled"}:
            scope.refuse(f"settings {sorted(body)} of {name}, which are changed one by one", call)
    elif verb == "config":
        _require_config(scope, name, config, call)
    elif verb == "offsets" and body is not None:
        for entry in body["offsets"]:
            scope.require_topic(entry["partition"]["topic"], call)


def _require_config(scope: DrillScope, name: str, config: Mapping[str, str], call: str) -> None:
    """Raise OutsideDrill unless a connector with this configuration copies and changes the drill's own names only."""
    kind = config.get("connector.class", "")
    if kind not in _REQUIRED:
        scope.refuse(f"connector {name!r} of the class {kind!r}", call)
    required = {"replication.policy.separator": SEPARATOR, **_REQUIRED[kind]}
    wrong = [f"{key}={config.get(key)}" for key, value in required.items() if config.get(key) != value]
    defaults = {"name": name, "replication.policy.internal.topic.separator.enabled": "true", **_FILTERS}
    wrong += [f"{key}={config[key]}" for key, value in defaults.items() if config.get(key, value) != value]
    wrong += [f"{key}={config[key]}" for key in _LEADS_ELSEWHERE if config.get(key)]
    # A second alias of a cluster multiplies heartbeats, and names topics that are not the drill's.
    wrong += [f"{key}={config.get(key)}" for key in _ALIASES if _checkpoints_of(config.get(key)) not in scope.topics]
    patterns = {"topics": scope.topics} if kind.endswith("SourceConnector") else {"groups": scope.groups}
    wrong += [
        f"{key}={pattern}"
        for key, allowed in patterns.items()
        for pattern in map(str.strip, config.get(key, "").split(","))
        if not _LITERAL.fullmatch(pattern) or pattern.replace("\\", "") not in allowed
    ]
    if wrong:
        scope.refuse(f"connector {name!r} with {', '.join(wrong)}", call)


def _checkpoints_of(alias: str | None) -> str:
    """Return the topic of checkpoints of a drill's flow from a cluster: a scope has those of both its clusters."""
    return f"{alias}{SEPARATOR}checkpoints{SEPARATOR}internal"
