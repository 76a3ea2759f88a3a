"""Commands for the platform engineer."""
