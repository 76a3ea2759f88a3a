"""Reads a safe part of YAML for configuration files: maps, lists and scalars, each with its line.

Refused are duplicate keys (PyYAML would use the last), anchors and aliases (a few hundred bytes can grow to gigabytes),
tags, merge keys, several documents, deep nesting, and large files. Errors never repeat text of the file, which might be
a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from kafka_dr.errors import BadInput

LARGEST_FILE = 1_000_000
DEEPEST = 12

Place = tuple[str | int, ...]


@dataclass(frozen=True)
class Document:
    """A YAML file's data, the number of each place's line in the file, and problems such as duplicate keys.

    Lines are counted from 1. A place is a path of keys and list indexes, such as `("flows", 0, "source")`.
    """

    data: Any
    lines: dict[Place, int]
    problems: list[tuple[Place, str]] = field(default_factory=list)

    def line_of(self, place: Place) -> int | None:
        """Return the line of a place, else of the nearest place that contains it; None if none has a line."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place)


def read_yaml(path: Path) -> Document:
    """Return a YAML file's data, with the line of each place.

    Raises:
        BadInput: the file is not readable YAML, is too large, or uses anchors, aliases, tags or deep nesting. Faulty
            keys do not raise; `Document.problems` lists them.
    """
    text = read_text(path, "an existing YAML file")
    try:
        _refuse_expansion(path, text)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        lines, problems = {}, []
        for place, line, problem in _walk(node, ()) if node is not None else ():
            lines[place] = line
            problems += [(place, problem)] if problem else []
        data = yaml.SafeLoader("").construct_document(node) if node is not None else None
    except yaml.MarkedYAMLError as error:
        position = (
            f"line {error.problem_mark.line + 1}, column {error.problem_mark.column + 1}"
            if error.problem_mark
            else "unknown place"
        )
        # Danger: str(error) quotes the file's lines around the fault, with any secret in them.
        raise BadInput(
            f"{path} is not YAML", f"{error.problem} at {position}", "correct the file at that place, or just before"
        ) from None
    except (yaml.YAMLError, ValueError, TypeError):
        raise BadInput(
            f"{path} is not YAML",
            "a character or a value that YAML does not allow",
            "remove control characters, and put values such as dates in quotes",
        ) from None
    return Document(data, lines, problems)


def read_text(path: Path, wanted: str, encoding: str = "UTF-8") -> str:
    """Return the text of a file of at most `LARGEST_FILE` bytes.

    Args:
        wanted: the kind of file that an error advises to name, such as "an existing YAML file".

    Raises:
        BadInput: the file cannot be read, or is larger.
    """
    try:
        if not path.is_file():
            # is_file() is false for devices and pipes, too: reading one might never end.
            raise BadInput(f"{path} is not a file", next_step=f"name {wanted}")
        with path.open("rb") as file:
            raw = file.read(LARGEST_FILE + 1)
        text = raw.decode(encoding)
    except (OSError, ValueError) as error:
        raise BadInput(
            f"{path} cannot be read",
            type(error).__name__,
            f"let this process's user read the file, and store the file as {encoding} text",
        ) from None
    if len(raw) > LARGEST_FILE:
        raise BadInput(f"{path} has more than {LARGEST_FILE} bytes", next_step=f"name {wanted} that is smaller")
    return text


def _refuse_expansion(path: Path, text: str) -> None:
    # The parser's events are checked before any data is built: a YAML bomb is refused before its aliases expand.
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        line = event.start_mark.line + 1  # type: ignore[union-attr]  # a parsed event has its mark
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise BadInput(
                f"{path} uses a YAML anchor or alias",
                f"line {line}",
                "write the value itself in the place of the alias",
            )
        if getattr(event, "tag", None):
            raise BadInput(f"{path} uses a YAML tag", f"line {line}", "remove the text that begins with `!`")
        if depth > DEEPEST:
            raise BadInput(
                f"{path} is nested deeper than {DEEPEST} levels",
                f"line {line}",
                "use fewer levels: a topology needs four or five",
            )


def _walk(node: yaml.Node, place: Place) -> Iterator[tuple[Place, int, str | None]]:
    """Yield (place, line, problem) for every place below a node; the problem is None if the place's key is valid."""
    yield place, node.start_mark.line + 1, None
    if isinstance(node, yaml.SequenceNode):
        for index, child in enumerate(node.value):
            yield from _walk(child, (*place, index))
    if isinstance(node, yaml.MappingNode):
        yield from _walk_mapping(node, place)


def _walk_mapping(node: yaml.MappingNode, place: Place) -> Iterator[tuple[Place, int, str | None]]:
    first: dict[str, int] = {}
    for key, child in node.value:
        name, line = str(key.value) if isinstance(key, yaml.ScalarNode) else "?", key.start_mark.line + 1
        yield from _walk(child, (*place, name))
        problem = None
        if name in first:
            problem = f"the key occurs twice, in lines {first[name]} and {line}; YAML would silently use the last value"
        elif key.tag != "tag:yaml.org,2002:str":
            problem = "YAML does not read this key as text; put the key in quotes"
        first.setdefault(name, line)
        yield (*place, name), line, problem


def place_text(place: Place) -> str:
    """Return a place in the file as text, such as `flows[0].connectors.source`."""
    text = ""
    for part in place:
        plain = isinstance(part, str) and re.fullmatch(r"[A-Za-z0-9_-]+", part)
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if plain else f"[{part!a}]"
    return text.removeprefix(".") or "the whole file"
