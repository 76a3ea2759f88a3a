"""Clusters, Connect workers, Airflow and Spark as local processes."""
