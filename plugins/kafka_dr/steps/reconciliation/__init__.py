"""Steps of reconcile_clusters."""
