"""Clients of Kafka clusters, for topics, groups, records and ACLs, some of which run Kafka's own tools."""
