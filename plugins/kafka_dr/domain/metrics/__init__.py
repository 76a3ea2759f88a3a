"""Metrics for Prometheus: the table of series, and values from documents and journal."""
