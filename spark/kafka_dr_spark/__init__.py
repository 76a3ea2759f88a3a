"""Functions and pure rules behind the Spark jobs; imports nothing of Airflow."""
