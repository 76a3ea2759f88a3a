"""Start and stop a lab: clusters, Connect workers, Airflow and Spark as local processes."""
