"""The reference of all keys of a topology file, as a page that is made from the models."""

from __future__ import annotations

import dataclasses
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from pydantic import AfterValidator, BaseModel
from pydantic.fields import FieldInfo

from kafka_dr.config.fields import (
    Alias,
    Connection,
    ConnectorName,
    FilePath,
    Folder,
    Principal,
    PublicKey,
    UserName,
)
from kafka_dr.config.topology import Topology
from kafka_dr.domain.canonical_json import canonical_json

_KEY = re.compile(r"^ {4}([a-z_]+(?:, [a-z_]+)*): (.*(?:\n {8}.*)*)", re.MULTILINE)
_TEXTS = {
    "alias": Alias,
    "Airflow connection": Connection,
    "connector": ConnectorName,
    "principal": Principal,
    "path": FilePath,
    "absolute path": Folder,
    "name": UserName,
    "public key": PublicKey,
}
_NAMES = {str: "text", int: "integer", float: "number", bool: "true or false"}
_HEAD = ("| key | value | default | example | meaning |", "| --- | --- | --- | --- | --- |")
#: Stands in `Key.kind` for a map of the topology.
_MAP = "<map>"
#: Maps whose keys people choose, and whose values are maps of the topology.
_NAMED_BY_PEOPLE = ("clusters",)
_LIMITS = {"ge": "from {}", "gt": "above {}", "le": "to {}", "lt": "below {}", "min_length": "at least {}"}


class Key(NamedTuple):
    """One key of one map of a topology file, with texts for people.

    Attributes:
        path: where the key stands, such as `flows[].connectors.source`.
        kind: what its value may be.
        default: the value without the key, as text; empty if the key must be there.
        meaning: what it means.
        models: the models of the maps that the value holds.
        below: path of these maps, such as `flows[]` for `flows`.
    """

    path: str
    kind: str
    default: str
    meaning: str
    models: tuple[type, ...]
    below: str


def keys_of(model: type, path: str = "") -> Iterator[Key]:
    """Yield the keys of a model in their order; those of the maps below are not among them.

    Raises:
        LookupError: the model's docstring says nothing of a key.
    """
    meanings = _meanings(model)
    for name, kind, default in _fields(model):
        where = f"{path}.{name}" if path else name
        in_list = any(get_origin(part) is tuple for part in _parts(kind))
        below = f"{where}{'.<name>' if where in _NAMED_BY_PEOPLE else '[]' if in_list else ''}"
        yield Key(where, _kind(kind), default, meanings[name], tuple(dict.fromkeys(_models(kind))), below)


def all_keys() -> Iterator[tuple[str, type, tuple[Key, ...]]]:
    """Yield (path, model, keys) of each map of a topology file: that of the whole file first, then those below it."""
    waiting: list[tuple[str, type]] = [("", Topology)]
    while waiting:
        path, model = waiting.pop(0)
        keys = tuple(keys_of(model, path))
        yield path, model, keys
        below = [(key.below, inner) for key in keys for inner in key.models]
        waiting = [*below, *waiting]


def reference_tables(examples: Mapping[str, Any]) -> str:
    """Return the kinds of texts, and the tables of all keys, as Markdown: one table for each map.

    Args:
        examples: path of a key, as of `Key` -> a value that a file may have there.
    """
    kinds = [f"| {name} | {_words(get_args(kind)[1:])} |" for name, kind in _TEXTS.items()]
    parts = ["\n".join(["| kind of text | what it may be |", "| --- | --- |", *kinds])]
    for path, model, keys in all_keys():
        about = _text((inspect.getdoc(model) or "").partition("\n\n")[0]) if path else "The keys of the file itself."
        rows = [_row(key, examples) for key in keys]
        heading = f"## {_heading(path, model)}" if path else "## The file"
        parts.append("\n".join([heading, "", about, "", *_HEAD, *rows]))
    return "\n\n".join(parts) + "\n"


def flatten_keys(data: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (path, value) of each key of a file's content; names that a person chooses stand as `<name>`."""
    if isinstance(data, Mapping):
        for name, value in data.items():
            where = f"{path}.<name>" if path in _NAMED_BY_PEOPLE else f"{path}.{name}" if path else str(name)
            yield where, value
            yield from flatten_keys(value, where)
    elif isinstance(data, list):
        for value in data:
            yield from flatten_keys(value, f"{path}[]")


def _row(key: Key, examples: Mapping[str, Any]) -> str:
    example = examples.get(key.path)
    if key.models and not isinstance(example, str):
        example = None
    shown = "" if example is None else f"`{example if isinstance(example, str) else canonical_json(example)}`"
    maps = " or ".join(f"[map](#{_anchor(_heading(key.below, model))})" for model in key.models)
    cells = (
        f"`{key.path.rpartition('.')[2]}`",
        key.kind.replace(_MAP, maps),
        key.default or "required",
        shown,
        key.meaning,
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _heading(path: str, model: type) -> str:
    variant = _variant(model)
    return f"`{path}`{f' of kind `{variant}`' if variant else ''}"


def _anchor(heading: str) -> str:
    return re.sub(r"[^a-z0-9_ -]", "", heading.lower()).replace(" ", "-")


def _variant(model: type) -> str:
    field = model.model_fields.get("kind") if issubclass(model, BaseModel) else None
    values = get_args(field.annotation) if field is not None and get_origin(field.annotation) is Literal else ()
    return str(values[0]) if len(values) == 1 else ""


def _meanings(model: type) -> dict[str, str]:
    texts: dict[str, str] = {}
    for kind in reversed(model.__mro__):
        attributes = inspect.cleandoc(kind.__doc__ or "").partition("Attributes:\n")[2] + "\n"
        for names, text in _KEY.findall(attributes):
            texts |= dict.fromkeys(names.split(", "), _text(text))
    return texts


def _text(text: str) -> str:
    one = " ".join(textwrap.dedent(text).split())
    return one[:1].upper() + one[1:]


def _fields(model: type) -> Iterator[tuple[str, Any, str]]:
    """Yield (name, type, default as text) of each field of a model or a dataclass."""
    if issubclass(model, BaseModel):
        for name, field in model.model_fields.items():
            yield (
                name,
                _annotated(field),
                "" if field.is_required() else _default(field.get_default(call_default_factory=True)),
            )
        return
    hints = get_type_hints(model, include_extras=True)
    for one in dataclasses.fields(model):  # type: ignore[arg-type]  # a dataclass, as `_is_model` says
        default = "" if one.default is dataclasses.MISSING else _default(one.default)
        yield one.name, hints[one.name], default


def _annotated(field: FieldInfo) -> Any:
    return Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation


def _default(value: Any) -> str:
    if value is None or value in ((), {}):
        return "none"
    if isinstance(value, BaseModel):
        return "as below"
    return f"`{canonical_json(value) if not isinstance(value, str) else value}`"


def _kind(hint: Any, limits: Iterable[Any] = ()) -> str:
    """Return in words what a value may be."""
    origin, inside = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _kind(inside[0], [*_flat(inside[1:]), *limits])
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(_kind(part, limits) for part in inside if part is not type(None)))
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in inside)
    if origin is tuple:
        return f"list: {_kind(inside[0])}{_limited(limits, ' entries')}"
    if origin is dict:
        return f"map: {_kind(inside[0])} → {_kind(inside[1])}{_limited(limits, ' entries')}"
    if hint not in _NAMES:
        return _MAP if _is_model(hint) else ", ".join(f"`{value.value}`" for value in hint)
    words = _words(limits)
    named = next((name for name, kind in _TEXTS.items() if words and words == _words(get_args(kind)[1:])), None)
    return named or f"{_NAMES[hint]}{_limited(limits)}{f': {words}' if words else ''}"


def _words(limits: Iterable[Any]) -> str:
    """Return what text a validator allows, as `matching_text` states it; empty without such a validator."""
    stated = [limit.func.__doc__ or "" for limit in limits if isinstance(limit, AfterValidator)]
    return next((words.removeprefix("expected ") for words in stated if words), "")


def _flat(metadata: Iterable[Any]) -> Iterator[Any]:
    for one in metadata:
        yield from one.metadata if isinstance(one, FieldInfo) else [one]


def _limited(limits: Iterable[Any], unit: str = "") -> str:
    stated = [
        words.format(f"{value:g}" if isinstance(value, float) else value)
        for limit in limits
        for name, words in _LIMITS.items()
        if (value := getattr(limit, name, None)) is not None
    ]
    return f"{',' if unit else ''} {' '.join(stated)}{unit}" if stated else ""


def _parts(hint: Any) -> Iterator[Any]:
    yield hint
    for part in get_args(hint):
        yield from _parts(part)


def _models(hint: Any) -> Iterator[type]:
    yield from (part for part in _parts(hint) if _is_model(part))


def _is_model(hint: Any) -> bool:
    return isinstance(hint, type) and (issubclass(hint, BaseModel) or dataclasses.is_dataclass(hint))
