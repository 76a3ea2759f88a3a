"""Judges what doctor has seen of an installation."""
