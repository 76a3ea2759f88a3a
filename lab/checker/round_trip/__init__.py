"""The check of one change of sides among several, by record ids and ordinals over both clusters."""
