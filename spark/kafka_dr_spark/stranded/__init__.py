"""Search for stranded records: acknowledged by a returned cluster, never replicated from it."""
