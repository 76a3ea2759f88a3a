"""Find the consumer groups that move, and prove that no consumer of these groups commits on the source."""
