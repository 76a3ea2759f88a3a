"""Search for stranded records."""
