"""Find stranded records."""
