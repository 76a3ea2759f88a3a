"""A procedure run by one command while Airflow's scheduler is down."""
