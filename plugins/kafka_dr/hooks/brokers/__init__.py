"""Clients of Kafka clusters: for topics, groups, records, ACLs, and requests that only Kafka's own tools can send."""
