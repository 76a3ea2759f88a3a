"""The lab, from plain jars: two Kafka clusters, two Connect workers with MirrorMaker 2, and Airflow."""
