"""Kafka versions of brokers and of Connect workers: what each needs, its jars, and ZooKeeper."""
