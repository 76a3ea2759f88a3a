"""Drain MirrorMaker 2, stop it, and turn its direction."""
