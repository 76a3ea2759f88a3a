"""Table of the Kafka versions that a site of the lab can run.

Kafka works without ZooKeeper (KRaft) with SCRAM users from 3.5 on. STOPPED connectors came with Connect 3.5, their
creation in this state (`initial_state`) with 3.7.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

NEWEST = "4.3.1"
BROKERS, CONNECT = "brokers", "Connect and MirrorMaker 2"


@dataclass(frozen=True)
class Release:
    """One Kafka version, and in what the lab must treat this version differently from the newest.

    Args:
        version: Kafka's version.
        parts: what of a site can run this version: `BROKERS`, `CONNECT`.
        zookeeper: brokers keep their metadata in ZooKeeper, also ACL entries and SCRAM users.
        log4j2: Kafka logs with Log4j 2; older versions with Log4j 1.
        plugin_discovery: Connect workers know the setting `plugin.discovery`.
        stops_connectors: Connect knows the state STOPPED; without it a flow that must not run is PAUSED.
        namings: naming policies for which MirrorMaker 2 has a class.
        spares_heartbeats: MirrorMaker 2 can be told to mirror no heartbeats (`heartbeats.replication.enabled`); without
            this setting no drill can run MirrorMaker 2 of its own.
        renamed: beginning of a connector setting's name in the newest version -> in this version.
    """

    version: str
    parts: tuple[str, ...] = (BROKERS,)
    zookeeper: bool = False
    log4j2: bool = False
    plugin_discovery: bool = True
    stops_connectors: bool = True
    namings: tuple[str, ...] = ("identity", "default")
    spares_heartbeats: bool = False
    renamed: Mapping[str, str] = field(default_factory=dict)

    def named(self, settings: Mapping[str, str]) -> dict[str, str]:
        """Return a connector's settings under the names that they have in this version."""
        return {self._name(key): value for key, value in settings.items()}

    def _name(self, key: str) -> str:
        return next((old + key.removeprefix(new) for new, old in self.renamed.items() if key.startswith(new)), key)


RELEASES = {
    release.version: release
    for release in (
        Release(
            "2.8.2",
            parts=(BROKERS, CONNECT),
            zookeeper=True,
            plugin_discovery=False,
            stops_connectors=False,
            namings=("default",),
            renamed={"source.consumer.": "consumer.", "source.admin.": "admin."},
        ),
        Release("3.4.1", zookeeper=True),
        Release("3.7.2", parts=(BROKERS, CONNECT)),
        Release("3.9.2"),
        Release(NEWEST, parts=(BROKERS, CONNECT), log4j2=True, spares_heartbeats=True),
    )
}


def versions_of(part: str) -> list[str]:
    """Return the versions that a part of a site can run, oldest first."""
    return [release.version for release in RELEASES.values() if part in release.parts]
