"""Read docker-compose.yaml, and docker-compose.small.yaml laid over it as Compose does it, without Docker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import yaml

from lab.containers.compose import FILES


@dataclass(frozen=True)
class Override:
    """A value that takes the place of what the file below has."""

    value: Any


class ResetValue:
    """Removes what the file below has."""


class ComposeLoader(yaml.SafeLoader):
    """Knows the two tags by which one of Compose's files changes another."""


def _overriding(loader: ComposeLoader, node: yaml.Node) -> Override:
    assert isinstance(node, yaml.SequenceNode), "only lists are overridden"
    return Override(loader.construct_sequence(node, deep=True))


ComposeLoader.add_constructor("!reset", lambda loader, node: ResetValue())
ComposeLoader.add_constructor("!override", _overriding)


def laid_over(below: Any, above: Any) -> Any:
    """Merge two values as Compose does: mappings by key, lists one after the other, everything else replaced."""
    if isinstance(above, Override):
        return above.value
    if isinstance(below, dict) and isinstance(above, dict):
        removed = {key for key, value in above.items() if isinstance(value, ResetValue)}
        assert removed <= set(below), f"{removed - set(below)} is not in the file below"
        kept = {key: value for key, value in below.items() if key not in removed}
        return kept | {key: laid_over(kept.get(key), above[key]) for key in above if key not in removed}
    if isinstance(below, list) and isinstance(above, list):
        return [*below, *above]
    return above


def read_stack(profile: str) -> dict[str, Any]:
    """What Compose makes of the files of a profile, before it replaces variables."""
    stack: dict[str, Any] = {}
    for file in FILES[profile]:
        stack = laid_over(stack, yaml.load(file.read_text(encoding="utf-8"), ComposeLoader))
    return stack
