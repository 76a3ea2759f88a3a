"""Steps of failover_drill."""
