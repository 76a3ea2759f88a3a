"""The flows of a topology as a graph: what must not run at once, and what a move of clients changes."""
