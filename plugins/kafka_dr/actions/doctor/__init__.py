"""Examine an installation without changing anything."""
