"""The embedded environment: two Kafka clusters, two Connect workers with MirrorMaker 2, and Airflow, from plain
jars.
"""
