"""What of a production site a drill must leave as it was, read by the checker's own clients."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import requests
from confluent_kafka import TopicCollection
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    ConfigSource,
    ResourcePatternType,
    ResourceType,
)

from lab.checker.findings import Finding

REQUEST_SECONDS = 60.0
#: What every procedure may leave, by its end of name: the topic in which the journal's head is anchored.
ANCHORS = "__switchback_journal"
_DYNAMIC = {ConfigSource.DYNAMIC_TOPIC_CONFIG, ConfigSource.DYNAMIC_BROKER_CONFIG}
_DYNAMIC |= {ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG}
_EVERY_ENTRY = AclBindingFilter(
    ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
)

#: Kind, such as `topics of primary` -> name -> state.
State = dict[str, dict[str, str]]


class ConnectReader:
    """Reads the REST API of a Connect worker.

    Args:
        url: address of the worker.
        properties: client properties of the cluster beside it; they name the CA of a site with TLS.
    """

    def __init__(self, url: str, properties: Mapping[str, str]) -> None:
        self._url, self._session = url, requests.Session()
        self._session.trust_env = False
        self._session.verify = properties.get("ssl.ca.location", True)

    def read(self, path: str) -> Any:
        """Return the answer to a GET request.

        Raises:
            requests.RequestException: the worker did not answer, or answered with an error.
        """
        answer = self._session.get(f"{self._url}{path}", timeout=REQUEST_SECONDS)
        answer.raise_for_status()
        return answer.json()

    def connectors(self) -> dict[str, Any]:
        """Return every connector with its configuration and status, by name."""
        found: dict[str, Any] = self.read("/connectors?expand=info&expand=status")
        return found


class SiteReader:
    """Reads topics, rights, settings, users and connectors of one cluster and of the Connect workers beside it.

    Args:
        alias: the cluster.
        status: the lab's status document.
    """

    def __init__(self, alias: str, status: Mapping[str, Any]) -> None:
        cluster = status["clusters"][alias]
        self._alias, self._properties = alias, dict(cluster["client_properties"]["admin"])
        self._admin = AdminClient(self._properties)
        self._connect = ConnectReader(cluster["connect_url"], self._properties)

    def read(self) -> State:
        """Return the present state of everything."""
        names = sorted(self._admin.list_topics(timeout=REQUEST_SECONDS).topics)
        brokers = sorted(self._admin.list_topics(timeout=REQUEST_SECONDS).brokers)
        kinds = {
            "topics": self._topics(names),
            "settings of topics": self._settings(ConfigResource.Type.TOPIC, names),
            "settings of brokers": self._settings(ConfigResource.Type.BROKER, map(str, brokers)),
            "ACL entries": self._entries(),
            "users": self._users(),
            "groups": self._groups(),
            **self._connectors(),
        }
        return {f"{kind} of {self._alias}": found for kind, found in kinds.items()}

    def _topics(self, names: list[str]) -> dict[str, str]:
        futures = self._admin.describe_topics(TopicCollection(names), request_timeout=REQUEST_SECONDS)
        found = {}
        for name, future in futures.items():
            topic = future.result()
            replicas = [[node.id for node in partition.replicas] for partition in topic.partitions]
            found[name] = f"id {topic.topic_id}, replicas {replicas}"
        return found

    def _settings(self, kind: Any, names: Iterable[str]) -> dict[str, str]:
        # A request may name one broker only.
        futures = [
            self._admin.describe_configs([ConfigResource(kind, name)], request_timeout=REQUEST_SECONDS)
            for name in names
        ]
        return {
            resource.name: json.dumps(
                {
                    key: entry.value
                    for key, entry in sorted(future.result().items())
                    if ConfigSource(entry.source) in _DYNAMIC
                }
            )
            for asked in futures
            for resource, future in asked.items()
        }

    def _entries(self) -> dict[str, str]:
        entries = self._admin.describe_acls(_EVERY_ENTRY, request_timeout=REQUEST_SECONDS).result()
        return {str(entry): "there" for entry in entries}

    def _users(self) -> dict[str, str]:
        asked: Any = self._admin.describe_user_scram_credentials(request_timeout=REQUEST_SECONDS)
        users = asked.result()
        return {
            name: ", ".join(f"{one.mechanism.name} {one.iterations}" for one in found.scram_credential_infos)
            for name, found in users.items()
        }

    def _groups(self) -> dict[str, str]:
        groups = self._admin.list_consumer_groups(request_timeout=REQUEST_SECONDS).result().valid
        return {group.group_id: "there" for group in groups}

    def _connectors(self) -> dict[str, dict[str, str]]:
        found = self._connect.connectors()
        return {
            "connectors": {name: json.dumps(one["info"]["config"], sort_keys=True) for name, one in found.items()},
            "tasks": {task: state for name, one in found.items() for task, state in task_states(name, one).items()},
        }


def task_states(name: str, connector: Mapping[str, Any]) -> dict[str, str]:
    """Return the state and the worker of a connector and of each of its tasks, by `CONNECTOR` and `CONNECTOR-TASK`."""
    status = connector["status"]
    rows = {name: status["connector"], **{f"{name}-{task['id']}": task for task in status["tasks"]}}
    return {key: f"{row['state']} on {row['worker_id']}" for key, row in rows.items()}


def state_findings(before: State, after: State) -> list[Finding]:
    """Return a finding for each thing that is no more, is new, or differs; the topic of the anchors may be new."""
    texts = []
    for kind in sorted({*before, *after}):
        then, now = before.get(kind, {}), after.get(kind, {})
        texts += [
            f"{kind}: {name} was {then.get(name, 'absent')}, is {now.get(name, 'absent')}"
            for name in sorted({*then, *now})
            if then.get(name) != now.get(name) and not (name == ANCHORS and name not in then)
        ]
    return [Finding("untouched", text) for text in texts]
