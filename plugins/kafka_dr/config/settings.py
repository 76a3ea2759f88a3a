"""Reads and checks the topology file; other modules import the configuration's classes from this module.

All problems of the file are reported at once, each with its path in the file, its line, its value and what is allowed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from kafka_dr.config.choices import quoted_value
from kafka_dr.config.connectors import Connectors
from kafka_dr.config.deadlines import Deadlines
from kafka_dr.config.file.strict_yaml import Document, Place, place_text, read_yaml
from kafka_dr.config.file.topology_checks import SECRET_VALUE, problems_in, without_secrets
from kafka_dr.config.params import Request, bad_input, check_params
from kafka_dr.config.topology import Cluster, Flow, GroupPolicy, Named, Principals, Topology
from kafka_dr.domain.mirror_maker.naming import NamingSpec
from kafka_dr.errors import BadInput

__all__ = [
    "Cluster",
    "Connectors",
    "Deadlines",
    "Flow",
    "GroupPolicy",
    "Named",
    "Principals",
    "Request",
    "Topology",
    "check_params",
    "check_topology",
    "load_topology",
]

TOPOLOGY_VARIABLE = "KAFKA_DR_TOPOLOGY"
_CORRECT = "correct the file, with runbooks/topology_reference.md; this attempt changed nothing"


def load_topology(path: str | Path | None = None) -> Topology:
    """Return the topology in the topology file; relative paths become absolute, from the file's folder.

    Args:
        path: the file; by default the file named by the environment's KAFKA_DR_TOPOLOGY.

    Raises:
        BadInput: all problems of the file at once; `problems` lists them line by line.
    """
    named = str(path or os.environ.get(TOPOLOGY_VARIABLE, ""))
    if not named:
        raise BadInput(
            "no topology file is named",
            next_step=f"set {TOPOLOGY_VARIABLE} to the path of the topology file, in the environment of this process",
        )
    file = Path(named).absolute()
    return _with_absolute_paths(_topology_from(read_yaml(file), str(file)), file.parent)


def check_topology(data: Mapping[str, Any], name: str) -> Topology:
    """Return the topology in data that is not in a file yet; raise BadInput, which lists all problems.

    Args:
        name: what the error calls the data, such as "the topology made from mm2.properties".
    """
    return _topology_from(Document(data, {}), name)


def _topology_from(document: Document, name: str) -> Topology:
    if not isinstance(document.data, Mapping):
        raise BadInput(
            f"{name} is not a map of settings", type(document.data).__name__, "begin the file with `clusters:`"
        )
    data = without_secrets(document.data)
    topology, faults = _validated(data)
    problems = [*document.problems, *problems_in(document.data), *faults]
    if problems or topology is None:
        lines = [_line(document, place, text) for place, text in _in_file_order(document, problems)]
        raise bad_input(
            f"{name} cannot be used",
            lines,
            "correct the file; runbooks/topology_reference.md explains every key. This attempt changed nothing",
        )
    return topology


def _validated(data: Mapping[str, Any]) -> tuple[Topology | None, list[tuple[Place, str]]]:
    try:
        return Topology.model_validate(data), []
    except ValidationError as error:
        return None, [_fault(fault, data) for fault in error.errors(include_url=False, include_context=False)]


def _fault(fault: Mapping[str, Any], data: Any) -> tuple[Place, str]:
    place = _place(fault["loc"], data)
    if fault["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return place, f"unknown key; allowed keys: {', '.join(_allowed_at(place[:-1])) or 'none'}"
    if fault["type"] in ("missing", "missing_argument"):
        return place, "missing"
    message = (
        fault["msg"].removeprefix("Value error, ").replace("Input should", "the value should").replace("tuple", "list")
    )
    return place, f"{_value(fault.get('input'))}: {message}"


def _place(loc: tuple[str | int, ...], data: Any) -> Place:
    """Return pydantic's path of a fault as a path in the file.

    Leave out parts that only pydantic has: the chosen kind of a union, and `[key]`, which marks a faulty key.
    """
    place: list[str | int] = []
    for number, part in enumerate(loc):
        inside = (isinstance(data, Mapping) and part in data) or (
            isinstance(data, list) and isinstance(part, int) and part < len(data)
        )
        if (not inside and number < len(loc) - 1) or part == "[key]":
            continue
        place.append(str(part) if isinstance(part, bool) else part)
        data = data[part] if inside else None
    return tuple(place)


def _value(value: Any) -> str:
    if isinstance(value, Mapping | list | tuple):
        return "a map" if isinstance(value, Mapping) else "a list"
    return "(value not shown)" if SECRET_VALUE.search(str(value)) else quoted_value(value)


def _allowed_at(place: Place) -> list[str]:
    kinds: set[type] = {Topology}
    for part in place:
        kinds = {inner for kind in kinds for inner in _models_in(_annotation(kind, part))}
    return sorted({name for kind in kinds for name in _fields(kind)})


def _fields(kind: type) -> Iterable[str]:
    return kind.model_fields if issubclass(kind, BaseModel) else NamingSpec.__dataclass_fields__


def _annotation(kind: type, part: str | int) -> Any:
    if issubclass(kind, BaseModel) and part in kind.model_fields:
        return kind.model_fields[part].annotation
    return kind


def _models_in(annotation: Any) -> set[type]:
    if get_origin(annotation) in (Union, UnionType, Annotated, dict, tuple):
        return {model for argument in get_args(annotation) for model in _models_in(argument)}
    return (
        {annotation}
        if isinstance(annotation, type) and (issubclass(annotation, BaseModel) or annotation is NamingSpec)
        else set()
    )


def _in_file_order(document: Document, problems: list[tuple[Place, str]]) -> list[tuple[Place, str]]:
    return sorted(
        dict.fromkeys(problems), key=lambda problem: (document.line_of(problem[0]) or 0, place_text(problem[0]))
    )


def _line(document: Document, place: Place, text: str) -> str:
    line = document.line_of(place)
    return f"{place_text(place)}{f' (line {line})' if line else ''}: {text}"


def _with_absolute_paths(topology: Topology, folder: Path) -> Topology:
    routing = topology.routing
    if routing.kind == "file":
        routing = routing.model_copy(update={"path": str(folder / routing.path)})
    metrics = topology.metrics
    if metrics is not None and metrics.file is not None:
        metrics = metrics.model_copy(update={"file": str(folder / metrics.file)})
    clusters = {
        alias: cluster.model_copy(
            update={"authorizer_logs": tuple(str(folder / path) for path in cluster.authorizer_logs)}
        )
        for alias, cluster in topology.clusters.items()
    }
    changed = {
        "clusters": clusters,
        "evidence": str(folder / topology.evidence),
        "routing": routing,
        "metrics": metrics,
    }
    return topology.model_copy(update=changed)
