"""Drain and stop MirrorMaker 2, and start the reverse flow."""
