"""Consumer groups: which ones move, and that they are at rest."""
