"""Positions: drained, offset pairs found by content, re-reads, restore."""
