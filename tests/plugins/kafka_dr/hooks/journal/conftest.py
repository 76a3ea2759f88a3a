"""An empty database on PostgreSQL."""

from __future__ import annotations

import pytest

from tests.support.postgresql import Server


@pytest.fixture
def database(postgresql: Server) -> str:
    """The name of a new and empty database."""
    return postgresql.make_database()


@pytest.fixture
def url(postgresql: Server, database: str) -> str:
    """Its URL."""
    return postgresql.url(database)
