"""Prove that partitions are drained, stop MirrorMaker 2, and check the reverse flow."""
