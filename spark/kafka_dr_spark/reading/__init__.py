"""Reading of partition windows, and matching of records by content."""
