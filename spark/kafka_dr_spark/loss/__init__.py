"""Assessment of data loss."""
