"""Failback: find, export and replay stranded records, and mirror the new primary to the returned cluster."""
