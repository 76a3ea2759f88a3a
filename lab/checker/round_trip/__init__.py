"""Check one client move (failover or failback) of a round trip: compare both clusters with what clients wrote."""
