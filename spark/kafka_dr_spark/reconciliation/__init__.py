"""Comparison of what both clusters hold, record by record, and the list of differences."""
