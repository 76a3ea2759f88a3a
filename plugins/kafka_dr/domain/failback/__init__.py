"""Segments of logs, stranded records, replay."""
