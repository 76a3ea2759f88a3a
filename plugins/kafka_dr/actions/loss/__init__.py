"""What is lost with a source, and what the target knows of it."""
