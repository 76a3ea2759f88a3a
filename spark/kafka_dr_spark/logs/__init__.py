"""Types of what is recorded of a partition's source log and target log: bounds, offset pairs, segments, samples."""
