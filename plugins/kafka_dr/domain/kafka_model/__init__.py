"""Kafka's own things: partitions, ACLs, transactions, log sizes, versions."""
