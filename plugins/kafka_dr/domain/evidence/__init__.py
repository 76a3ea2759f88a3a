"""Evidence and status of a procedure, and their charts."""
