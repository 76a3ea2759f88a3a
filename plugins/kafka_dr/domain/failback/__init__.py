"""Failback: segments of logs, stranded records and their replay."""
