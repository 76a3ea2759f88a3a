"""The flows of a topology as a graph: what must not run at once, and what becomes of each flow when clients move."""
