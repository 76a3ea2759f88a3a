"""Drills on the real clusters: their names, and what they may change."""
