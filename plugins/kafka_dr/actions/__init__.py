"""Acts and observations of which the steps consist, in one folder per capability; only spark_jobs uses Airflow."""
