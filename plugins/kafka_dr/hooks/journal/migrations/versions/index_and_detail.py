"""An index on entries by step and kind, as the watcher looks them up, and a detail for each heartbeat."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, String

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add both; rows and the statements of revision 0001 stay valid."""
    op.create_index("ix_entries_step_kind", "entries", ["step", "kind"])
    op.add_column("signs_of_life", Column("detail", String(500)))
