"""Steps of a planned failover; a failback runs them, too."""
