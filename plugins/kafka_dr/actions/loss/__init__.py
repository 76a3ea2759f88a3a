"""Records lost with a source, and the state known without the source."""
