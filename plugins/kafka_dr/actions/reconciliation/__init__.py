"""Compare what both clusters hold: the bounds of a comparison, and its result."""
