"""Translation of group positions from source offsets to target offsets."""
