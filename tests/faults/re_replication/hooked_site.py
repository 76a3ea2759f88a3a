"""A flow without a REST API for offsets, on a lab: a worker of 2.8.2 or a dedicated process, behind a stop hook."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import yaml
from confluent_kafka.admin import ConfigResource
from kafka_dr.domain.mirror_maker.offset_records import ConnectorRecords, OffsetRecord
from kafka_dr.hooks.brokers.record_reader import RecordReader
from kafka_dr.hooks.brokers.topics import READ_COMMITTED

from lab.environment import dedicated_mirror_maker
from lab.environment.connect import FLOWS, call_worker, connector_name
from lab.environment.dedicated_mirror_maker import all_settings, start_dedicated
from lab.environment.state import Lab, write_private
from tests.faults.re_replication.re_replicated_site import SECONDS, SOURCE, TARGET, Place, Site
from tests.faults.replication.other_workers import change_flow
from tests.faults.support.stepping import more_connections_path
from tests.faults.support.stop_server import DeletingServer, StopServer

OLD = "2.8.2"
_NOT_SETTINGS = ("source.cluster.", "target.cluster.", "name", "connector.class", "offset-syncs.topic.location")


class HookedSite(Site):
    """The topics of a lab whose flow a stop hook stops and starts; offsets are read from the flow's own topic."""

    def __init__(self, lab: Lab) -> None:
        super().__init__(lab)
        flow = next(flow for flow in yaml.safe_load(lab.topology.read_text())["flows"] if flow["target"] == TARGET)
        self.connector = flow["connectors"]["source"]
        self._topic = flow["mirror_maker"].get("offset.storage.topic", f"mm2-offsets.{SOURCE}.internal")

    def settings(self, alias: str, topic: str) -> dict[str, str]:
        """Return the values in force: 2.8.2 creates topics with all defaults, and removes these at its next start."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        entries = self.admin(alias).describe_configs([resource])[resource].result(SECONDS)
        return {name: entry.value for name, entry in entries.items()}

    def offsets(self) -> dict[Place, int]:
        """Return what the flow's own topic stores: (topic, partition) -> last copied offset."""
        partitions = len(self.partitions(TARGET, self._topic))
        settings = dict(self.lab.status()["clusters"][TARGET]["client_properties"]["admin"])
        reader = RecordReader(settings, TARGET, READ_COMMITTED)
        rows = reader.read_all(self._topic, take=lambda one: OffsetRecord(one.partition(), one.key(), one.value()))
        found = ConnectorRecords.read(self.connector, partitions, rows).offsets().get(SOURCE, {})
        return {(tp.topic, tp.partition): offset for tp, offset in found.items() if offset is not None}


def choices_of(kind: str) -> tuple[str, dict[str, Any]]:
    """Return naming policy and further choices of the lab of one kind: `connect-2.8.2`, `dedicated-POLICY`."""
    how, _, policy = kind.partition("-")
    return ("default", {"connect": {TARGET: OLD}}) if how == "connect" else (policy, {"dedicated": True})


class EditedServer(StopServer):
    """The hook of a dedicated process, which also reports the settings in the file that a person edits."""

    def __init__(self, lab: Lab) -> None:
        super().__init__(lab, starts=True)
        self.kept = {"tasks.max": "2", **all_settings(lab)}

    def settings(self) -> dict[str, str]:
        """Return what the file says."""
        return dict(self.kept)

    def edit(self, wanted: dict[str, dict[str, str | None]]) -> None:
        """Edit the file as a plan says: connector -> setting -> value, None to remove."""
        for changes in wanted.values():
            self.kept = {key: value for key, value in {**self.kept, **changes}.items() if value is not None}

    def begin(self) -> None:
        """Start the process with what the file says."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(dedicated_mirror_maker, "all_settings", lambda _: self.kept)
            start_dedicated(self.lab)


class EditedDeletingServer(DeletingServer):
    """The hook of an old worker's connectors, which also reports the settings with which it creates them."""

    def settings(self) -> dict[str, str]:
        """Return the settings of both connectors together."""
        configs = self.configs or {
            name: call_worker(self.lab, TARGET, "GET", f"/connectors/{name}/config").json() for name in self.names
        }
        source, checkpoint = (configs[name] for name in self.names)
        return {key: one for key, one in {**checkpoint, **source}.items() if not key.startswith(_NOT_SETTINGS)}

    def edit(self, wanted: dict[str, dict[str, str | None]]) -> None:
        """Edit the configurations as a plan says."""
        for name, changes in wanted.items():
            changed = {**self.configs[name], **changes}
            self.configs[name] = {key: value for key, value in changed.items() if value is not None}


@contextmanager
def hook_of(lab: Lab, kind: str) -> Iterator[EditedServer | EditedDeletingServer]:
    """Serve the stop hook, which the topology names; of a worker of 2.8.2 it deletes and creates the connectors."""
    if kind.startswith("dedicated"):
        with EditedServer(lab) as hook:
            yield hook
        return
    write_private(
        more_connections_path(lab),
        json.dumps({"stop_mirror_maker": {"conn_type": "http", "host": lab.stop_hook_url}}),
    )
    change_flow(lab, TARGET, connect=None, stop_hook="stop_mirror_maker", mirror_maker=_settings_in_connect(lab))
    with EditedDeletingServer(lab) as deleting:
        yield deleting


def _settings_in_connect(lab: Lab) -> dict[str, str]:
    """Return the settings of the flow's connectors as their worker has them, and where it stores offsets.

    A worker before 3.0 does not heed `offset-syncs.topic.location`: it writes offset syncs to the source.
    """
    names = [connector_name(*FLOWS[TARGET], kind) for kind in ("checkpoint", "source")]
    configs = [call_worker(lab, TARGET, "GET", f"/connectors/{name}/config").json() for name in names]
    keys = {key for config in configs for key in config if not key.startswith(_NOT_SETTINGS)}
    known = {*all_settings(lab)} - {"offset-syncs.topic.location"}
    known |= {"topics.blacklist", "groups.blacklist", "replication.policy.class"}
    stated = {key: config[key] for config in configs for key in keys & known if key in config}
    return {**stated, "offset.storage.topic": "__connect_standby_offsets"}
