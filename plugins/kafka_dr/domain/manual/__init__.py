"""Shell commands for manual failover and rollback."""
