"""Alembic's scripts for the schema of the journal's database; `hooks/journal/schema.py` runs them."""
