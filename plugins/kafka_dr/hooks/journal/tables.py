"""The tables of journal entries, leases, heartbeats and notices, and their rows as Python objects.

The tables are created and changed by the scripts in `migrations/versions/`, of which these are the sum.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Column, Index, Integer, MetaData, Row, String, Table, Text

from kafka_dr.errors import BadInput

TABLES = MetaData()
ENTRIES = Table(
    "entries",
    TABLES,
    Column("sequence", Integer, primary_key=True, autoincrement=False),
    Column("procedure_id", String(300), nullable=False, index=True),
    Column("step", String(100), nullable=False),
    Column("kind", String(50), nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("at", String(40), nullable=False),
    Column("payload", Text, nullable=False),
    Column("previous_hash", String(64), nullable=False),
    Column("hash", String(64), nullable=False),
    Index("ix_entries_step_kind", "step", "kind"),
)
LEASES = Table(
    "leases",
    TABLES,
    Column("pair", String(300), primary_key=True),
    Column("epoch", Integer, primary_key=True, autoincrement=False),
    Column("holder", String(300), nullable=False, index=True),
    Column("taken_at", String(40), nullable=False),
    Column("released_at", String(40)),
    Column("outcome", String(50)),
)
SIGNS = Table(
    "signs_of_life",
    TABLES,
    Column("name", String(100), primary_key=True),
    Column("at", String(40), nullable=False),
    Column("detail", String(500)),
)
NOTICES = Table(
    "notices",
    TABLES,
    Column("notice", String(400), primary_key=True),
    Column("route", String(300), primary_key=True),
    Column("state", String(20), nullable=False, index=True),
    Column("at", String(40), nullable=False),
    Column("tries", Integer, nullable=False),
    Column("detail", String(500)),
)


@dataclass(frozen=True)
class JournalEntry:
    """One journal entry. `payload` is the parsed JSON; `hash` covers all other fields.

    Attributes:
        at: the time of writing, in UTC.
    """

    sequence: int
    procedure_id: str
    step: str
    kind: str
    epoch: int
    at: datetime
    payload: Any
    previous_hash: str
    hash: str


@dataclass(frozen=True)
class Lease:
    """The right to act on a pair of clusters; `holder` has this right until `released_at` and `outcome` are set."""

    pair: str
    holder: str
    epoch: int
    taken_at: datetime
    released_at: datetime | None
    outcome: str | None


@dataclass(frozen=True)
class CoolDown:
    """A time in which no other procedure can take a pair of clusters, after a procedure has ended.

    Attributes:
        procedure_id: the procedure that ended.
        outcome: the outcome of this procedure.
        ended_at: end of this procedure, in UTC; the cool-down begins.
        ends_at: end of the cool-down, in UTC.
    """

    procedure_id: str
    outcome: str
    ended_at: datetime
    ends_at: datetime


def refuse_unkept(table: Table, **names: str) -> None:
    """Raise BadInput for a name that SQLite or PostgreSQL would not store unchanged.

    Args:
        names: column of `table` -> the name to be stored in the column.
    """
    for column, name in names.items():
        longest, text = table.c[column].type.length, str(name)  # type: ignore[attr-defined]
        if len(text) > longest:
            problem = f"{len(text)} characters, at most {longest} can be stored"
        elif any(character == "\0" or "\ud800" <= character <= "\udfff" for character in text):
            problem = "a NUL or half a surrogate pair cannot be stored"
        else:
            continue
        raise BadInput(
            f"the journal cannot store this {column} in its table {table.name}",
            f"{text[:60]!r}: {problem}",
            "shorten or correct the text; the journal was not written",
        )


def canonical_text(value: Any) -> str:
    """Return a value as canonical JSON, its keys made strings and sorted; BadInput if the value is no JSON."""
    try:
        plain = json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise BadInput(
            "a journal entry's payload is not JSON",
            str(error),
            "report this message as a defect of Switchback; the entry was not written",
        ) from None
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)


def iso_text(moment: datetime) -> str:
    """Return a time as the tables store it: ISO 8601, UTC, microseconds; BadInput for a time without zone."""
    if moment.tzinfo is None:
        raise BadInput(
            "the journal cannot store a time without time zone",
            repr(moment),
            "report this message as a defect of Switchback; nothing was written",
        )
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def read_entry(values: Any) -> JournalEntry:
    """Return the journal entry that a row of the table `entries` holds."""
    return JournalEntry(
        **{**values, "at": datetime.fromisoformat(values["at"]), "payload": json.loads(values["payload"])}
    )


def read_lease(row: Row[Any]) -> Lease:
    """Return the lease that a row of the table `leases` holds."""
    released_at = None if row.released_at is None else datetime.fromisoformat(row.released_at)
    return Lease(row.pair, row.holder, row.epoch, datetime.fromisoformat(row.taken_at), released_at, row.outcome)
