"""Files of evidence that are in a store."""
