"""The steps of the procedures, a file each, named like the DAG's line, the task id and the runbook's heading."""
