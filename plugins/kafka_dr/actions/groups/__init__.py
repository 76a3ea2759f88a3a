"""Consumer groups: which groups move, and the proof that no consumer of these groups commits."""
