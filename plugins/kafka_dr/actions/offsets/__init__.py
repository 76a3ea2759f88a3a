"""Translate groups' positions from the source to the target, and commit them on the target."""
