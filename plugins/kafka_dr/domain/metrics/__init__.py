"""Metrics for Prometheus: the table of series, and samples from documents and journal."""
