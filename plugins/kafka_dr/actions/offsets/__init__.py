"""Translate and commit groups' positions."""
