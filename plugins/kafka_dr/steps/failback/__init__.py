"""Steps of a failback before check_readiness; from there a failback runs the steps of a planned failover."""
