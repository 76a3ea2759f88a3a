"""What became of each notice on each route, so that no process sends a notice again."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, Integer, String

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the table; the statements of revision 0002 stay valid."""
    op.create_table(
        "notices",
        Column("notice", String(400), primary_key=True),
        Column("route", String(300), primary_key=True),
        Column("state", String(20), nullable=False, index=True),
        Column("at", String(40), nullable=False),
        Column("tries", Integer, nullable=False),
        Column("detail", String(500)),
    )
