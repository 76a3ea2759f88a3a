"""What a run is about: topics, groups, positions, and MirrorMaker 2's internal topics."""
