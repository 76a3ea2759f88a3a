"""Read windows of partitions, and match records by content."""
