"""Read from the journal how earlier procedures moved clients between the pair's clusters and seeded the flows."""
