"""The tables entries, leases and signs_of_life."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, Integer, String, Text

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "entries",
        Column("sequence", Integer, primary_key=True, autoincrement=False),
        Column("procedure_id", String(300), nullable=False, index=True),
        Column("step", String(100), nullable=False),
        Column("kind", String(50), nullable=False),
        Column("epoch", Integer, nullable=False),
        Column("at", String(40), nullable=False),
        Column("payload", Text, nullable=False),
        Column("previous_hash", String(64), nullable=False),
        Column("hash", String(64), nullable=False),
    )
    op.create_table(
        "leases",
        Column("pair", String(300), primary_key=True),
        Column("epoch", Integer, primary_key=True, autoincrement=False),
        Column("holder", String(300), nullable=False, index=True),
        Column("taken_at", String(40), nullable=False),
        Column("released_at", String(40)),
        Column("outcome", String(50)),
    )
    op.create_table(
        "signs_of_life",
        Column("name", String(100), primary_key=True),
        Column("at", String(40), nullable=False),
    )
