"""Kafka clusters: admin client, records, ACLs, Kafka's own tools."""
