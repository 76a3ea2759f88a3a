"""A fact is the typed content of one journal entry: its fields are the keys of the entry's payload.

Invariants
1. Facts are pure data: neither clock nor I/O.
2. Unknown keys of a payload are ignored, so that entries of a newer version can still be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from datetime import datetime
from functools import cache
from typing import Annotated, Any, ClassVar, Protocol, Self, TypeVar, dataclass_transform

import pydantic

from kafka_dr.errors import Contradiction
from kafka_dr.vocabulary import Entry, Step

T = TypeVar("T")
#: Payload keys that cannot be names of Python fields, by field name.
_KEYS = {"attempt": "try"}


def _is_none(value: object) -> bool:
    return value is None


#: A field of this type is absent from the payload if its value is None. Other fields are always written, None as null.
OrAbsent = Annotated[T | None, pydantic.Field(exclude_if=_is_none)]


class Line(Protocol):
    """One journal entry, with the properties that readers of facts need."""

    @property
    def procedure_id(self) -> str:
        """Id of the procedure that wrote the entry, or `watch_old_source` if the watcher did."""

    @property
    def step(self) -> str:
        """The step that wrote the entry."""

    @property
    def kind(self) -> str:
        """The kind of the entry, such as intent or outcome; a value of `vocabulary.Entry`."""

    @property
    def at(self) -> datetime:
        """When the entry was written, in UTC."""

    @property
    def payload(self) -> Any:
        """The entry's fact as a JSON object."""


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
class Fact:
    """Base of all facts.

    A subclass that is declared with `steps` is the class of journal entries: `shape_of` finds it by an entry's step,
    kind and payload keys. A subclass without `steps` is only a base of other classes.

    Attributes:
        steps: steps that may write the fact; () if any step may.
        kind: kind of the journal entries that hold the fact.
        required: keys that every payload of the fact has.
    """

    __pydantic_config__: ClassVar = pydantic.ConfigDict(
        alias_generator=lambda name: _KEYS.get(name, name), serialize_by_alias=True
    )
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    steps: ClassVar[tuple[Step, ...]] = ()
    kind: ClassVar[Entry]
    required: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls, steps: tuple[Step, ...] | None = None, kind: Entry | None = None) -> None:
        super().__init_subclass__()
        dataclass(frozen=True, kw_only=True)(cls)
        if kind is not None:
            cls.kind = kind
        without_default = [
            member.name for member in fields(cls) if member.default is MISSING and member.default_factory is MISSING
        ]
        cls.required = frozenset(_KEYS.get(name, name) for name in without_default)
        if steps is not None:
            cls.steps = steps
            _SHAPES.append(cls)

    def payload(self) -> dict[str, Any]:
        """Return the fact as the JSON object that the journal stores."""
        payload: dict[str, Any] = _adapter(type(self)).dump_python(self, mode="json", warnings=False)
        return payload

    @classmethod
    def from_payload(cls, payload: Mapping[str, Any]) -> Self:
        """Return the fact in a journal entry's payload; raise Contradiction if the payload does not fit the class."""
        return read_as(cls, payload)


_SHAPES: list[type[Fact]] = []
_ADAPTERS: dict[type[Any], pydantic.TypeAdapter[Any]] = {}
E = TypeVar("E", bound=Line)
F = TypeVar("F", bound=Fact)


class Intent(Fact, kind=Entry.INTENT):
    """An intent: what a step is about to change."""


class StepOutcome(Fact, kind=Entry.OUTCOME):
    """An outcome: what a step has done and read back."""


class Note(Fact, kind=Entry.NOTE):
    """A note: what a step observed, written before the step's outcome."""


class WatchedFact(Fact):
    """A fact that the watcher may write, too.

    Attributes:
        procedure_id: in an entry of the watcher, the procedure whose old source is watched; None in other entries.
    """

    procedure_id: OrAbsent[str] = None


def read_as(shape: type[T], value: Mapping[str, Any]) -> T:
    """Return an instance of a dataclass from JSON of the journal; raise Contradiction if the JSON does not fit."""
    try:
        return _adapter(shape).validate_python(value)
    except pydantic.ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        raise Contradiction(
            "An entry of the journal cannot be read",
            f"{'.'.join(map(str, problem['loc'])) or 'payload'}: {problem['msg']} (read as {shape.__name__})",
            "Compare the entry in the journal's database with a backup: if the entry was changed, restore the entry. If"
            " another version of Switchback wrote the entry, run that version.",
        ) from None


def _adapter(shape: type[T]) -> pydantic.TypeAdapter[T]:
    """Return pydantic's adapter of a class; it is built at its first use, because building all at import takes long."""
    if shape not in _ADAPTERS:
        _ADAPTERS[shape] = pydantic.TypeAdapter(shape)
    return _ADAPTERS[shape]


@cache
def shapes_of(step: str, kind: str) -> tuple[type[Fact], ...]:
    """Return the fact classes that entries of a step and kind may hold; classes with most required keys come first."""
    shapes = [shape for shape in _SHAPES if shape.kind == kind and (not shape.steps or step in shape.steps)]
    return tuple(sorted(shapes, key=lambda shape: -len(shape.required)))


def shape_of(step: str, kind: str, payload: Any) -> type[Fact] | None:
    """Return the class of the fact in an entry, by step, kind and the payload's keys; None if no class fits."""
    if not isinstance(payload, Mapping):
        return None
    return next((shape for shape in shapes_of(step, kind) if shape.required <= payload.keys()), None)


def read_entry(step: str, kind: str, payload: Any) -> Fact:
    """Return the fact that an entry holds; raise Contradiction if no class of this program fits the entry."""
    shape = shape_of(step, kind, payload)
    if shape is None:
        raise Contradiction(
            f"The journal holds a {kind} of {step} that this version of Switchback does not know",
            f"keys: {', '.join(sorted(map(str, payload))) if isinstance(payload, Mapping) else 'none'}",
            "Run the version of Switchback that wrote the entry.",
        )
    return shape.from_payload(payload)


def facts_of(entries: Iterable[E], fact: type[F]) -> Iterator[tuple[E, F]]:
    """Yield each entry that holds a fact of the class `fact`, or of a subclass, with its fact; the order stays."""
    for entry in entries:
        shape = shape_of(entry.step, entry.kind, entry.payload)
        if shape is not None and issubclass(shape, fact):
            try:
                instance = shape.from_payload(entry.payload)
            except Contradiction as error:
                place = f"{entry.kind} of {entry.step}, procedure {entry.procedure_id}, at {entry.at}"
                raise Contradiction(error.reason, f"{place}: {error.seen}", error.next_step) from None
            yield entry, instance


def entries_about(entries: Iterable[E], procedure_id: str) -> list[E]:
    """Return the entries that a procedure wrote, or that the watcher wrote about it; the order stays."""
    return [
        entry
        for entry, fact in facts_of(entries, Fact)
        if procedure_id in (entry.procedure_id, fact.procedure_id if isinstance(fact, WatchedFact) else None)
    ]


def subject_of(entry: Line) -> str:
    """Return the id of the procedure that wrote an entry, or about which the watcher wrote the entry."""
    about = entry.payload.get("procedure_id") if isinstance(entry.payload, Mapping) else None
    return str(about or entry.procedure_id)


def facts_in(entries: Iterable[Line], fact: type[F]) -> list[F]:
    """Return the facts of the class `fact`, or of a subclass, that the entries hold, in the order of the entries."""
    return [instance for _, instance in facts_of(entries, fact)]


def newest_fact(entries: Iterable[Line], fact: type[F]) -> F | None:
    """Return the last fact of the class `fact`, or of a subclass, that the entries hold; None without such a fact."""
    return next(iter(facts_in(reversed(list(entries)), fact)), None)
