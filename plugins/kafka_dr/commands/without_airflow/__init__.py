"""Runs one procedure from a single command, while Airflow's own scheduler is down."""
