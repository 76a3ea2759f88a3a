"""The demos: each runs a real procedure on a lab of its own, with a check; only the evidence remains."""
