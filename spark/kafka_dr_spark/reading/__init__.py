"""Reading of offset ranges of partitions (read windows), and matching of records by content."""
