"""Readers of the configuration files of Kafka's Java clients and of MirrorMaker 2, without I/O."""
