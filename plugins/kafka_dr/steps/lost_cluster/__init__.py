"""Steps of lost_cluster, which starts the unplanned failovers of all pairs of a lost cluster under one plan."""
