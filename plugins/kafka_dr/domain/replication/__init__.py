"""Replication: drained."""
