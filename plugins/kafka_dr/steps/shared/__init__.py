"""Steps that several procedures have."""
