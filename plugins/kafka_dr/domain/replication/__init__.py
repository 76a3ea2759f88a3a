"""Replication: whether a partition is drained."""
