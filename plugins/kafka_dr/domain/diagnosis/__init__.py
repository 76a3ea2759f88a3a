"""Decision trees by which diagnose_replication finds out why a flow does not replicate."""
