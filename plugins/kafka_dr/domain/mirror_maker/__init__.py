"""MirrorMaker 2's own things: names, patterns, records, offset syncs."""
