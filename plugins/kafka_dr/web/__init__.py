"""The web page inside Airflow's API server: reads the journal, changes nothing."""
