"""How any procedure runs: what its journal says."""
