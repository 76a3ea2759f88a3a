"""What steps do and look at, by capability; no Airflow."""
