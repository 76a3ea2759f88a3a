"""Consumer groups: which groups move, and the proof that they are at rest."""
