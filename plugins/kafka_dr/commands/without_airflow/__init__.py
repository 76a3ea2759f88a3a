"""One procedure run by a single command while Airflow's scheduler is down."""
