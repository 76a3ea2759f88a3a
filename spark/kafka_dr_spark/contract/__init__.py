"""The files that a job reads and writes, and their schemas."""
