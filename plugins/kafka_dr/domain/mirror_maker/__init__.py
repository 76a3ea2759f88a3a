"""MirrorMaker 2's names, patterns, records and offset syncs."""
