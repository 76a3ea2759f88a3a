"""Find the topics, groups and positions that a run moves, and read MirrorMaker 2's internal topics."""
