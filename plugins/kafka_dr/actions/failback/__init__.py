"""Failback: find and replay stranded records, and mirror the new primary's records to the returned cluster."""
