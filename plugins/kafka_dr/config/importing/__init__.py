"""Readers of the configuration of Kafka's Java clients and of MirrorMaker 2; their input is text, never a file."""
