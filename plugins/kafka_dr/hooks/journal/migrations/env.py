"""Alembic executes this file for each command: the command works in the transaction that its caller has begun."""

from alembic import context

context.configure(**context.config.attributes["migration_context"])
context.run_migrations()
