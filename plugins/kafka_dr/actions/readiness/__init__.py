"""Observe clusters and flow, and write the plan."""
