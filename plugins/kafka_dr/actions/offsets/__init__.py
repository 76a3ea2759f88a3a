"""Translate positions, and commit them."""
