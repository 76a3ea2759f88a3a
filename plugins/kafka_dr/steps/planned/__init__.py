"""Steps of a planned failover; a failback runs them, too, from check_readiness on."""
