"""Kafka's partitions, ACLs, transactions, log sizes and versions."""
