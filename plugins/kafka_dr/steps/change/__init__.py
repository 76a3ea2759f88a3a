"""Steps of change_replication."""
