"""Observe both clusters and the flow, and forecast the plan."""
