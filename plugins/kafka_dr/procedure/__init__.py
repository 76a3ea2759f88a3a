"""How any procedure runs: its run, systems, authority, progress, files, approvals and journal entries."""
