"""The clients of the source, by kind: what a move does with each, and what its owner must do."""
