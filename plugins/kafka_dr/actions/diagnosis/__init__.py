"""Reads what the decision trees of diagnose_replication ask about; changes nothing."""
