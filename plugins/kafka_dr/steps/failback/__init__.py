"""Steps of a failback, before it goes on as a planned failover does."""
