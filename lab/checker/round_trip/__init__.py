"""The check of one of several client moves, by record ids and ordinals over both clusters."""
