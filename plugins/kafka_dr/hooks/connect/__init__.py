"""Clients of MirrorMaker 2, in a Connect worker or in dedicated mode."""
