"""Converts MirrorMaker 2's connectors, as Connect's REST API reports them, into a topology."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kafka_dr.config.importing.mirror_maker_properties import (
    CertificatePrincipal,
    Converted,
    Ends,
    FlowHandle,
    topology_from_settings,
)
from kafka_dr.domain.mirror_maker.patterns import list_items
from kafka_dr.domain.plain_text import count_of
from kafka_dr.errors import BadInput

_CLASS = "org.apache.kafka.connect.mirror.Mirror"
_SOURCE, _CHECKPOINT, _HEARTBEAT = "source", "checkpoint", "heartbeat"
_OWN = ("name", "connector.class", "source.cluster.alias", "target.cluster.alias")
#: Lists that several source connectors of a flow share among them.
_JOINED = ("topics",)

#: Connector -> configuration, of one Connect worker.
Configs = Mapping[str, Mapping[str, str]]


def topology_from_connect(
    workers: Mapping[str, Configs], template: str | None, certificate_principal: CertificatePrincipal
) -> Converted:
    """Return the topology, connections and notes made from the connectors of Connect workers; write no file.

    Args:
        workers: Airflow connection of a Connect worker -> its connectors' configurations, with their secrets.
        template, certificate_principal: as of `topology_from_properties`.

    Raises:
        BadInput: the workers have no source connector of MirrorMaker 2, or a flow has no checkpoint connector, or two.
    """
    settings: dict[str, str] = {}
    places: dict[Ends, dict[str, list[tuple[str, str]]]] = {}
    for connection, configs in workers.items():
        for name, config in sorted(configs.items()):
            if kind := _kind(config):
                ends = config.get("source.cluster.alias", ""), config.get("target.cluster.alias", "")
                _add(settings, ends, config)
                places.setdefault(ends, {}).setdefault(kind, []).append((connection, name))
    flows = {ends: of for ends, of in places.items() if _SOURCE in of}
    if not flows:
        raise BadInput(
            "The Connect workers have no source connector of MirrorMaker 2",
            f"{', '.join(workers)}: {count_of(sum(map(len, workers.values())), 'connector')}, none of class"
            f" {_CLASS}SourceConnector",
            "name the Airflow connections of the Connect clusters that run MirrorMaker 2",
        )
    settings["clusters"] = ", ".join(dict.fromkeys(alias for ends in flows for alias in ends))
    settings |= {f"{source}->{target}.enabled": "true" for source, target in flows}
    handles = {ends: _handle(ends, of) for ends, of in flows.items()}
    return topology_from_settings(
        settings, lambda source, target: handles[source, target], template, certificate_principal
    )


def _kind(config: Mapping[str, str]) -> str:
    name = config.get("connector.class", "").removeprefix(_CLASS).removesuffix("Connector").lower()
    return name if name in (_SOURCE, _CHECKPOINT, _HEARTBEAT) else ""


def _add(settings: dict[str, str], ends: Ends, config: Mapping[str, str]) -> None:
    """Add a connector's settings under the keys of an mm2.properties file."""
    prefixes = {"source.cluster.": f"{ends[0]}.", "target.cluster.": f"{ends[1]}."}
    for key, value in config.items():
        if key in _OWN:
            continue
        prefix = next((prefix for prefix in prefixes if key.startswith(prefix)), "")
        whole = prefixes[prefix] + key.removeprefix(prefix) if prefix else f"{'->'.join(ends)}.{key}"
        shared = list_items(settings[whole]) if key in _JOINED and whole in settings else []
        settings[whole] = ",".join(dict.fromkeys([*shared, *list_items(value)])) if shared else value


def _handle(ends: Ends, of: Mapping[str, list[tuple[str, str]]]) -> FlowHandle:
    """Return the handle of a flow whose connectors are at these places, each (connection, name)."""
    flow, connections = "->".join(ends), sorted({connection for connection, _ in of[_SOURCE]})
    checkpoints = of.get(_CHECKPOINT, [])
    if len(connections) > 1 or len(checkpoints) != 1:
        raise BadInput(
            f"The connectors of {flow} are no flow that Switchback can follow",
            f"source connectors on {', '.join(connections)}; checkpoint connectors:"
            f" {', '.join(name for _, name in checkpoints) or 'none'}",
            "run all source connectors of the flow in one Connect cluster, with one checkpoint connector",
        )
    ((at, name),) = checkpoints
    names = [name for _, name in of[_SOURCE]]
    connectors: dict[str, Any] = {_SOURCE: names[0] if len(names) == 1 else names}
    connectors[_CHECKPOINT] = name if at == connections[0] else {"name": name, "connect": at}
    connectors |= dict(_heartbeat(of))
    return FlowHandle(connections[0], connectors, exists=True)


def _heartbeat(of: Mapping[str, list[tuple[str, str]]]) -> Iterator[tuple[str, str]]:
    yield from ((_HEARTBEAT, name) for _, name in of.get(_HEARTBEAT, [])[:1])
