"""Everything of a lab that a procedure changes: looked at as a whole, and put back."""

from __future__ import annotations

import json
import shutil
import sqlite3
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import requests
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from kafka_dr.vocabulary import JOURNAL_TOPIC

from lab.environment.connect import FLOWS, call_worker, connector_name
from lab.environment.state import ALIASES, Lab
from tests.support.lab_clients import acl_filter, without_marker

SECONDS = 30.0
ANCHOR_SECONDS = 5.0
CONNECTOR_SECONDS = 60.0
DISABLED = ", disabled"
ANYTHING = acl_filter()


class World:
    """Rights, positions, connectors and routing record, of the clusters in ``alive`` only."""

    def __init__(
        self,
        lab: Lab,
        groups: Iterable[str],
        source: str = "primary",
        target: str = "standby",
        alive: Iterable[str] = ALIASES,
    ) -> None:
        self.lab, self.groups, self.source, self.target, self.alive = lab, sorted(groups), source, target, tuple(alive)
        self._admins = {
            alias: AdminClient({**lab.client_properties(alias, "admin"), "log_level": 3}) for alias in self.alive
        }

    def look(self) -> dict[str, Any]:
        """Return the world as plain data, without values that differ between runs."""
        return {
            "acls": {alias: sorted(_text(b) for b in self._acls(alias)) for alias in self.alive},
            "positions": self._positions(),
            "connectors": {name: self._state(host, name) for host, name in self._connectors()},
            "reverse_offsets": self._reverse_offsets(),
            "routing": {
                key: value
                for key, value in json.loads(self.lab.routing.read_text()).items()
                if key in ("cluster", "bootstrap_servers")
            },
        }

    def put_back(self, before: dict[str, Any]) -> None:
        """Restore the world that `look` returned."""
        for alias in self.alive:
            now = {_text(b): b for b in self._acls(alias)}
            added = [_filter(b) for text, b in now.items() if text not in before["acls"][alias]]
            lost = [_binding(text) for text in before["acls"][alias] if text not in now]
            self._done(self._admins[alias].delete_acls(added) if added else {})
            self._done(self._admins[alias].create_acls(lost) if lost else {})
        wanted = before["positions"]
        gone = [group for group in self._positions() if group not in wanted]
        self._done(self._admins[self.target].delete_consumer_groups(gone) if gone else {})
        self._commit(wanted)
        for host, name in self._connectors():
            self._reach(host, name, before["connectors"][name])
        self.lab.routing.write_text(json.dumps(before["routing"] | {"version": int(time.time())}))

    def _acls(self, alias: str) -> list[AclBinding]:
        return without_marker(self._admins[alias].describe_acls(ANYTHING).result(SECONDS))

    def _positions(self) -> dict[str, dict[str, int]]:
        asked = [ConsumerGroupTopicPartitions(group) for group in self.groups]
        found = {}
        for one in asked:
            (future,) = self._admins[self.target].list_consumer_group_offsets([one]).values()
            held = {
                f"{tp.topic}/{tp.partition}": tp.offset
                for tp in future.result(SECONDS).topic_partitions
                if tp.offset >= 0
            }
            found |= {one.group_id: held} if held else {}
        return found

    def _commit(self, wanted: dict[str, dict[str, int]]) -> None:
        for group, held in wanted.items():
            partitions = [TopicPartition(*_place(place), offset) for place, offset in held.items()]
            self._done(
                self._admins[self.target].alter_consumer_group_offsets(
                    [ConsumerGroupTopicPartitions(group, partitions)]
                )
            )

    def _connectors(self) -> list[tuple[str, str]]:
        return [
            (target, connector_name(source, target, kind))
            for source, target in FLOWS.values()
            if target in self.alive
            for kind in ("source", "checkpoint")
        ]

    def _state(self, host: str, name: str) -> str:
        """Return the connector's state; with `disabled` if a resume starts no task of it."""
        state = call_worker(self.lab, host, "GET", f"/connectors/{name}/status").json()["connector"]["state"]
        enabled = call_worker(self.lab, host, "GET", f"/connectors/{name}/config").json().get("enabled", "true")
        return str(state) if enabled == "true" else f"{state}, disabled"

    def _reach(self, host: str, name: str, state: str) -> None:
        disabled = state.endswith(DISABLED)
        if self._state(host, name).endswith(DISABLED) != disabled:
            self._ask(host, name, "stop", "STOPPED")
            change = {"enabled": "false" if disabled else None}
            call_worker(self.lab, host, "PATCH", f"/connectors/{name}/config", change).raise_for_status()
        verb = {"STOPPED": "stop", "PAUSED": "pause", "RUNNING": "resume"}[state.removesuffix(DISABLED)]
        self._ask(host, name, verb, state)

    def _ask(self, host: str, name: str, verb: str, state: str) -> None:
        ends_at = time.monotonic() + CONNECTOR_SECONDS
        while self._state(host, name) not in (state, f"{state}{DISABLED}"):
            # A worker that is just closing the clients of a dead source does not answer in time; it does what it was
            # told all the same.
            with suppress(requests.Timeout):
                call_worker(self.lab, host, "PUT", f"/connectors/{name}/{verb}")
            assert time.monotonic() < ends_at, f"{name} does not {verb}"
            time.sleep(0.3)

    def _reverse_offsets(self) -> list[str]:
        if self.source not in self.alive:
            return []
        name = connector_name(self.target, self.source, "source")
        kept = call_worker(self.lab, self.source, "GET", f"/connectors/{name}/offsets").json()["offsets"]
        # Of heartbeats it grows whenever the flow runs: it is MirrorMaker 2's alone.
        return sorted(
            json.dumps(entry, sort_keys=True)
            for entry in kept
            if not entry["partition"]["topic"].endswith("heartbeats")
        )

    @staticmethod
    def _done(futures: dict[Any, Any]) -> None:
        for future in futures.values():
            future.result(SECONDS)


def keep_journal(lab: Lab, folder: Path) -> None:
    """Copy journal, anchors and evidence, so that a procedure can be continued from this state several times."""
    folder.mkdir(parents=True, exist_ok=True)
    with sqlite3.connect(lab.journal) as here, sqlite3.connect(folder / "journal.db") as there:
        here.backup(there)
    shutil.copytree(lab.evidence, folder / "evidence", dirs_exist_ok=True)
    for alias in ALIASES:
        (folder / f"anchors-{alias}.json").write_text(json.dumps(read_anchors(lab, alias)))


def bring_back_journal(lab: Lab, folder: Path) -> None:
    """Restore the copied journal and evidence, and the anchors of that time; no process may have these files open.

    The anchors of later entries would contradict the copy.
    """
    for alias in ALIASES:
        bring_back_anchors(lab, alias, folder / f"anchors-{alias}.json")
    for path in lab.journal.parent.glob(lab.journal.name + "*"):
        path.unlink()
    lab.journal.touch(0o600)
    shutil.copyfile(folder / "journal.db", lab.journal)
    shutil.rmtree(lab.evidence)
    shutil.copytree(folder / "evidence", lab.evidence)


def read_anchors(lab: Lab, alias: str) -> list[list[str]]:
    """Return key and value, in hexadecimal, of each anchor on a cluster; [] if the cluster does not answer."""
    group = {"group.id": "none", "enable.auto.commit": False, "log_level": 0}
    consumer = Consumer({**lab.client_properties(alias, "admin"), **group})
    try:
        low, high = consumer.get_watermark_offsets(TopicPartition(JOURNAL_TOPIC, 0), timeout=ANCHOR_SECONDS)
        if low == high:
            return []
        consumer.assign([TopicPartition(JOURNAL_TOPIC, 0, low)])
        return [[m.key().hex(), m.value().hex()] for m in consumer.consume(high - low, timeout=SECONDS)]
    except KafkaException:
        return []
    finally:
        consumer.close()


def bring_back_anchors(lab: Lab, alias: str, kept: Path) -> None:
    """Put the anchors of an earlier time in the place of all later ones, on a cluster that answers."""
    client = {**lab.client_properties(alias, "admin"), "log_level": 0}
    admin, end = AdminClient(client), TopicPartition(JOURNAL_TOPIC, 0, -1)
    with suppress(KafkaException):
        for deleted in admin.delete_records([end], request_timeout=ANCHOR_SECONDS).values():
            deleted.result(2 * ANCHOR_SECONDS)
        producer = Producer({**client, "message.timeout.ms": 10_000})
        for key, value in json.loads(kept.read_text()):
            producer.produce(JOURNAL_TOPIC, bytes.fromhex(value), bytes.fromhex(key), partition=0)
        assert producer.flush(SECONDS) == 0


def _place(text: str) -> tuple[str, int]:
    topic, _, partition = text.rpartition("/")
    return topic, int(partition)


_PARTS = ("restype", "name", "resource_pattern_type", "principal", "host", "operation", "permission_type")


def _text(binding: AclBinding) -> str:
    return json.dumps([getattr(getattr(binding, part), "name", getattr(binding, part)) for part in _PARTS])


def _binding(text: str) -> AclBinding:
    kind, name, pattern, principal, host, operation, permission = json.loads(text)
    place = (ResourceType[kind], name, ResourcePatternType[pattern])
    return AclBinding(*place, principal, host, AclOperation[operation], AclPermissionType[permission])


def _filter(binding: AclBinding) -> AclBindingFilter:
    return AclBindingFilter(*(getattr(binding, part) for part in _PARTS))
