"""What steps do and read, by capability; no Airflow."""
