"""Clients that read, stop and resume MirrorMaker 2, in a Connect worker or in dedicated mode."""
