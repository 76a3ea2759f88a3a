"""What a run is about: its topics, groups and positions, and MirrorMaker 2's internal topics."""
