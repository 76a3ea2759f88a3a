"""How any procedure runs: its run, systems, authority, progress, files and approvals, and what its journal says."""
