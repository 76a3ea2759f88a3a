"""Start and stop a lab: two Kafka clusters, Connect workers, Airflow and Spark as local processes."""
