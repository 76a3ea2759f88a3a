"""Fences."""
