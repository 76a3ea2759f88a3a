"""Positions of groups: content pairs, re-reads, restore."""
