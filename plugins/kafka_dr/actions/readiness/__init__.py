"""Read the state of both clusters and the flow for the readiness checks, and forecast what a move would do."""
