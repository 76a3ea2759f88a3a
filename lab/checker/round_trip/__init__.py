"""Check of one of several client moves, by comparing the records of both clusters with what clients wrote."""
