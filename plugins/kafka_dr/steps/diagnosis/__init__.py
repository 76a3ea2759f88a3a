"""Steps of diagnose_replication."""
