"""Whether a source is lost, and which records are lost with it."""
