"""Fence the source: refuse clients' writes and groups' reads, and prove the refusal."""
