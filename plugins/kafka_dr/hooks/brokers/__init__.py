"""Clients of Kafka clusters, for topics, groups, records and ACLs."""
