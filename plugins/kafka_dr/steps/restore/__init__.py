"""Steps of restore_group_offsets."""
