"""A lost source, and the records lost with it."""
