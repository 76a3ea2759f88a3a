"""What the lab has for drills: a Connect worker beside each cluster, and each cluster's environment marker."""
