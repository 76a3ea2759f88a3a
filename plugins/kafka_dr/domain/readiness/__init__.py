"""Readiness checks, and the plan."""
