"""Fences: refuse clients' writes and reads, and prove the refusal."""
