"""A lost source, and what is lost with it."""
