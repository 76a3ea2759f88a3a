"""What reconcile_clusters compares, and what its evidence says."""
