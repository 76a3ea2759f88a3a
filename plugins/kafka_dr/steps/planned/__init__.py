"""Steps of a planned failover; a failback has them, too."""
