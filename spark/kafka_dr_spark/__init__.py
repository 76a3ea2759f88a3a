"""Code of the Spark jobs in spark/jobs; imports nothing of Airflow."""
