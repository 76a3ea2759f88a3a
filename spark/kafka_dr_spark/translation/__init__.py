"""Translate positions."""
