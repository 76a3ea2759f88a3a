"""Clusters, Connect workers, Airflow and Spark as processes of this machine."""
