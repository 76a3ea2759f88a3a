"""Assessment of data loss: which records a lost source had acknowledged and the target does not have."""
