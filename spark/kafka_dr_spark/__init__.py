"""DataFrame functions and pure rules behind the Spark jobs; knows nothing of Airflow."""
