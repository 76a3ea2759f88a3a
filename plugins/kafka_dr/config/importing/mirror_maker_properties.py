"""Converts MirrorMaker 2's configuration file into a topology, and lists each unused key with the reason."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import permutations
from typing import Any, Literal

from kafka_dr.config.importing.client_settings import CONNECTION_KEY, for_librdkafka, principal_of
from kafka_dr.config.importing.java_properties import Property, read_properties
from kafka_dr.config.importing.unused_keys import reason_unused
from kafka_dr.domain.mirror_maker.naming import TOPIC
from kafka_dr.domain.mirror_maker.patterns import list_items
from kafka_dr.errors import BadInput

POLICY_CLASSES = {
    "": "default",
    "org.apache.kafka.connect.mirror.DefaultReplicationPolicy": "default",
    "org.apache.kafka.connect.mirror.IdentityReplicationPolicy": "identity",
}
_UNKNOWN_PRINCIPAL = (
    "the settings do not say as whom MirrorMaker 2 logs in: state its principal under `principals.mirror_maker`;"
    " without it the fence refuses MirrorMaker 2, too"
)
# Settings that define a flow, none of them a secret; the conversion writes them into the flow's `mirror_maker`.
FLOW_SETTING = re.compile(
    r"(topics|groups)(\.exclude|\.blacklist)?|(topic|group)\.filter\.class|config\.(properties|"
    r"property)\.(exclude|blacklist|filter\.class)|"
    r"offset-syncs\.topic\.(location|replication\.factor)|(checkpoints|"
    r"heartbeats)\.topic\.replication\.factor|replication\.factor|"
    r"offset\.lag\.max|tasks\.max|errors\.tolerance|heartbeats\.replication\.enabled|"
    r"(source\.)?consumer\.(isolation\.level|auto\.offset\.reset)|"
    r"(refresh\.(topics|groups)|sync\.(topic\.(configs|acls)|group\.offsets)|emit\.(checkpoints|"
    r"heartbeats))\.(enabled|interval\.seconds)|"
    r"emit\.offset-syncs\.enabled|exactly\.once\.(source\.support|support)|(key|value|header)\.converter|"
    r"use\.defaults\.from|"
    r"source\.admin\.(default\.api|request)\.timeout\.ms|add\.(source|target)\.alias\.to\.metrics|"
    r"offset\.flush\.interval\.ms",
)
NAMING_SETTING = re.compile(r"replication\.policy\.(class|separator|internal\.topic\.separator\.enabled)")
_DEDICATED = (
    "connect-mirror-maker.sh has no REST call to stop a connector or to set its offsets; before a failover, run the"
    " same connectors in a Connect cluster (with these names, or change `connectors`)"
)

Worker = Literal["dedicated", "connect"]
Ends = tuple[str, str]
Connections = dict[str, dict[str, str | dict[str, str]]]
CertificatePrincipal = Callable[[str, Mapping[str, str]], tuple[str | None, str]]


@dataclass(frozen=True)
class FlowHandle:
    """By what a flow is stopped and read: as the topology states it under `flows`.

    Attributes:
        connect: Airflow connection of the flow's Connect worker.
        connectors: what stands under `connectors`.
        further: further keys of the flow.
        exists: whether a person has made the connection already.
    """

    connect: str
    connectors: dict[str, Any]
    further: dict[str, Any] = field(default_factory=dict)
    exists: bool = False


@dataclass(frozen=True)
class Converted:
    """Result of converting MirrorMaker 2's configuration.

    Attributes:
        topology: the topology file's data, without any secret.
        connections: Airflow connections by name, as `airflow connections import` takes them; they hold secrets.
        to_make: Airflow connection that the topology names but the configuration does not define -> its purpose.
        ignored: key of the configuration that the conversion did not use -> the reason.
        notes: what a person should know or do, without secrets.
    """

    topology: dict[str, Any]
    connections: Connections = field(repr=False)
    to_make: dict[str, str]
    ignored: dict[str, str]
    notes: list[str]


def topology_from_properties(
    text: str,
    worker: Worker = "dedicated",
    template: str | None = None,
    certificate_principal: CertificatePrincipal = lambda *_: (None, ""),
) -> Converted:
    """Return the topology, connections and notes made from the text of an mm2.properties file; write no file.

    Args:
        text: the file's text, decoded as ISO-8859-1, as Java does.
        worker: `dedicated` for connect-mirror-maker.sh, `connect` for connectors in a Connect cluster; decides the
            names of connectors and of Connect workers' connections.
        template: how a custom replication policy class names topics, such as `replicated-<source>-<topic>`; `<topic>`
            if it keeps all names.
        certificate_principal: returns the principal of MirrorMaker 2 on a cluster where it logs in by a certificate,
            None if it is unknown, and a sentence on it; its arguments are alias and Java settings.

    Raises:
        BadInput: no topology can be made from the file; the message states the reason.
    """
    entries = read_properties(text)
    given = {entry.key: entry.value for entry in entries}
    converted = topology_from_settings(given, partial(_handle, worker), template, certificate_principal)
    by_hand = [_DEDICATED] if worker == "dedicated" else []
    return replace(converted, notes=[*converted.notes, *by_hand, *_form_notes(entries)])


def topology_from_settings(
    given: Mapping[str, str],
    handle: Callable[[str, str], FlowHandle],
    template: str | None,
    certificate_principal: CertificatePrincipal,
) -> Converted:
    """Return the topology, connections and notes made from settings as an mm2.properties file has them.

    Args:
        given: keys with the prefixes of an mm2.properties file -> values.
        handle: returns a flow's handle, by source and target.
        template, certificate_principal: as of `topology_from_properties`.

    Raises:
        BadInput: as `topology_from_properties`.
    """
    settings = _Settings(given, handle)
    by_certificate = {
        alias: certificate_principal(alias, settings.client(alias))
        for alias in settings.aliases
        if settings.client(alias).get("security.protocol", "").strip().upper() == "SSL"
    }
    principals = {alias: principal_of(settings.client(alias)) for alias in settings.aliases}
    principals |= {alias: principal for alias, (principal, _) in by_certificate.items()}
    topology = {
        "clusters": {alias: _cluster(alias, principals[alias]) for alias in settings.aliases},
        "naming": settings.naming(template),
        "flows": [settings.flow(*ends) for ends in settings.flows],
        "routing": {"kind": "file", "path": "routing.json"},
        "journal": {"connection": "kafka_dr_journal"},
        "airflow_api": {"connection": "airflow_api"},
        "spark": {"connection": "spark_default"},
        "evidence": "evidence",
    }
    clients = {alias: for_librdkafka(settings.client(alias)) for alias in settings.aliases}
    connections: Connections = {
        f"kafka_{alias}": {"conn_type": "kafka", "extra": client.extra} for alias, client in clients.items()
    }
    notes = [f"kafka_{alias}: {note}" for alias, client in clients.items() for note in client.notes]
    notes += [f"{alias}: {note}" for alias, (_, note) in by_certificate.items() if note]
    unknown = (alias for alias, principal in principals.items() if principal is None and alias not in by_certificate)
    notes += [f"{alias}: {_UNKNOWN_PRINCIPAL}" for alias in unknown]
    return Converted(topology, connections, settings.to_make(), settings.ignored(), notes + settings.notes())


def _cluster(alias: str, mirror_maker: str | None) -> dict[str, Any]:
    """Return what the topology has under `clusters` for an alias; principals only if MirrorMaker 2's is known."""
    principals = {"principals": {"mirror_maker": [mirror_maker]}} if mirror_maker else {}
    return {"connection": f"kafka_{alias}", **principals}


def _handle(worker: Worker, source: str, target: str) -> FlowHandle:
    kinds = ("source", "checkpoint", "heartbeat")
    if worker == "dedicated":
        return FlowHandle(f"connect_{source}_{target}", {kind: f"Mirror{kind.capitalize()}Connector" for kind in kinds})
    return FlowHandle(f"connect_{target}", {kind: f"{source}-to-{target}-{kind}" for kind in kinds})


class _Settings:
    """The settings of an mm2.properties file, by the cluster or the direction (source, target) that each concerns.

    Attributes:
        aliases: the clusters, in the file's order.
        general: settings by key, of keys that have neither a cluster's nor a direction's prefix.
        of_cluster: by alias, the settings whose keys have the alias as prefix, by key without this prefix.
        of_direction: by (source, target), the settings with the prefix `source->target.`, by key without this prefix.
        flows: the enabled directions, each as (source, target).
    """

    def __init__(self, settings: Mapping[str, str], handle: Callable[[str, str], FlowHandle]) -> None:
        self.aliases = tuple(dict.fromkeys(filter(None, list_items(settings.get("clusters", "")))))
        if len(self.aliases) < 2:
            raise BadInput(
                "`clusters` names fewer than two clusters",
                ascii(settings.get("clusters", "")),
                "name two clusters or more: clusters = primary, standby",
            )
        self._handle = handle
        self.general: dict[str, str] = {}
        self.of_cluster: dict[str, dict[str, str]] = {alias: {} for alias in self.aliases}
        self.of_direction: dict[Ends, dict[str, str]] = {ends: {} for ends in permutations(self.aliases, 2)}
        prefixes = {f"{alias}.": self.of_cluster[alias] for alias in self.aliases}
        prefixes |= {f"{source}->{target}.": keys for (source, target), keys in self.of_direction.items()}
        for key, value in settings.items():
            # The longest prefix counts: with clusters dc and dc.one, dc.one.bootstrap.servers is of dc.one.
            prefix = max((prefix for prefix in prefixes if key.startswith(prefix)), key=len, default="")
            prefixes.get(prefix, self.general)[key.removeprefix(prefix)] = value
        self.flows = [
            ends for ends, keys in self.of_direction.items() if keys.get("enabled", "").strip().lower() == "true"
        ]
        if not self.flows:
            raise BadInput(
                "no direction is enabled",
                f"clusters: {', '.join(self.aliases)}",
                "enable a direction: primary->standby.enabled = true",
            )

    def client(self, alias: str) -> dict[str, str]:
        """Return MirrorMaker 2's connection settings for a cluster: general ones, overridden by the cluster's."""
        return {
            key: value
            for key, value in (self.general | self.of_cluster[alias]).items()
            if CONNECTION_KEY.fullmatch(key)
        }

    def naming(self, template: str | None) -> dict[str, Any]:
        """Return the topology's `naming`, made from the replication policy of the enabled directions.

        Raises:
            BadInput: the directions have different replication policy settings, or their policy is a custom class and
                no `template` says how the class names topics.
        """
        stated = [self._stated(ends, NAMING_SETTING) for ends in self.flows]
        if any(other != stated[0] for other in stated):
            raise BadInput(
                "directions differ in replication.policy settings",
                next_step="set the same replication.policy settings for all enabled directions; directions with other"
                " settings need a file and a topology of their own",
            )
        name = stated[0].get("replication.policy.class", "")
        if name not in POLICY_CLASSES and template is None:
            raise BadInput(
                f"{name!a} is a custom replication policy",
                next_step="state how the policy names topics: --template 'replicated-<source>-<topic>'; for a policy"
                " that keeps all names: --template '<topic>'",
            )
        keeps_names = template is not None and template.strip() == TOPIC
        naming = {
            "policy": POLICY_CLASSES.get(name, "identity" if keeps_names else "template"),
            "separator": stated[0].get("replication.policy.separator", "."),
        }
        internal = stated[0].get("replication.policy.internal.topic.separator.enabled", "true").lower() == "true"
        return (
            naming
            | ({} if internal else {"internal_topic_separator": False})
            | ({} if name in POLICY_CLASSES else {"policy_class": name})
            | ({} if name in POLICY_CLASSES or keeps_names else {"template": template})
        )

    def flow(self, source: str, target: str) -> dict[str, Any]:
        """Return what the topology has under `flows` for a direction."""
        settings = self._stated((source, target), FLOW_SETTING)
        isolation = {"isolation": level} if (level := self._isolation(source, target)) else {}
        handle = self._handle(source, target)
        return {
            "source": source,
            "target": target,
            "connect": handle.connect,
            "connectors": handle.connectors,
            **isolation,
            **handle.further,
            "mirror_maker": settings,
        }

    def to_make(self) -> dict[str, str]:
        """Return the Airflow connections that a person must create, name -> connection type and purpose."""
        handles = {ends: self._handle(*ends) for ends in self.flows}
        workers = {
            handle.connect: f"http: the Connect worker that runs {'->'.join(ends)}"
            for ends, handle in handles.items()
            if not handle.exists
        }
        return workers | {
            "kafka_dr_journal": (
                'generic: extra {"url": ...} with the SQLAlchemy URL of journal and lease, on a machine outside both'
                " sites"
            ),
            "airflow_api": "http: Airflow's API, with an account that may read runs and answers of gates",
            "spark_default": "spark: where the offset and loss jobs run",
        }

    def ignored(self) -> dict[str, str]:
        """Return every key of the file that the conversion did not use -> the reason."""
        ignored = {key: reason_unused(key) for key in self.general if key != "clusters" and not self._used(key)}
        for alias, keys in self.of_cluster.items():
            ignored |= {
                f"{alias}.{key}": reason_unused(key)
                for key in keys
                if not CONNECTION_KEY.fullmatch(key) and key != "consumer.isolation.level"
            }
        for ends, keys in self.of_direction.items():
            enabled = ends in self.flows
            used = (
                ("enabled", *self._stated(ends, FLOW_SETTING), *self._stated(ends, NAMING_SETTING)) if enabled else ()
            )
            unused = (key for key in keys if key not in used)
            ignored |= {f"{'->'.join(ends)}.{key}": reason_unused(key if enabled else "enabled") for key in unused}
        return ignored

    def notes(self) -> list[str]:
        """Return sentences on what a person should change in MirrorMaker 2's setup before a failover."""
        notes = [
            (
                "the kafka_ connections log in with MirrorMaker 2's principals; create separate principals for the"
                " orchestrator, and name these in `principals`"
            )
        ]
        if any(
            self.flow(*ends)["mirror_maker"].get("offset-syncs.topic.location", "source") != "target"
            for ends in self.flows
        ):
            notes.append(
                "offset syncs are stored on the source and lost with it; set offset-syncs.topic.location=target on"
                " source and checkpoint connectors"
            )
        notes.append(
            "record under `offset_option` of each flow how its groups are meant to find their positions on the target,"
            " and why (runbooks/offset_options.md)"
        )
        missing_reverse = ["->".join(reversed(ends)) for ends in self.flows if ends[::-1] not in self.flows]
        return notes + (
            [f"the reverse flow is missing ({', '.join(missing_reverse)}); a failback needs it, STOPPED until then"]
            if missing_reverse
            else []
        )

    def _stated(self, ends: Ends, kind: re.Pattern[str]) -> dict[str, str]:
        return {
            key: value.strip() for key, value in (self.general | self.of_direction[ends]).items() if kind.fullmatch(key)
        }

    def _used(self, key: str) -> bool:
        return any(shape.fullmatch(key) for shape in (CONNECTION_KEY, FLOW_SETTING, NAMING_SETTING))

    def _isolation(self, source: str, target: str) -> str | None:
        direction, key = self.of_direction[source, target], "consumer.isolation.level"
        own, general = self.of_cluster[source], self.general
        places = (
            direction.get(f"source.{key}"),
            direction.get(key),
            own.get(key),
            general.get(f"source.{key}"),
            general.get(key),
        )
        return next((level.strip().lower() for level in places if level), None)


def _form_notes(entries: Iterable[Property]) -> list[str]:
    """Return sentences on text that Java probably does not read as meant: single backslashes, duplicate keys."""
    notes: list[str] = []
    first: dict[str, int] = {}
    for entry in entries:
        if entry.key in first:
            notes.append(
                f"{entry.key!a} occurs in lines {first[entry.key]} and {entry.line}; the last value counts, as in"
                " MirrorMaker 2"
            )
        first[entry.key] = entry.line
        if re.search(r"(topics|groups)(\.exclude|\.blacklist)?$", entry.key) and re.search(
            r"(?<!\\)(\\\\)*\\[^\\\r\n]", entry.written
        ):
            parsed = f"{entry.key!a} is read as {entry.value!a}"
            notes.append(
                f"line {entry.line}: Java drops a single backslash, so {parsed}; write two backslashes for one"
            )
    return notes
