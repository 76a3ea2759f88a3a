"""The steps of the procedures: one file per step, named like its DAG line, task id and runbook heading."""
