"""Run failovers and failbacks on a lab, from the workload to the checker's result."""
