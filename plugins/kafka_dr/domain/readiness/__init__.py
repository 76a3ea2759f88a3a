"""Readiness, and the plan."""
