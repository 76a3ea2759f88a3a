"""The demos: a real procedure each, on a lab of its own, with a check; only the evidence remains."""
