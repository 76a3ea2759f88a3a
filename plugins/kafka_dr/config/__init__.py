"""Configuration: the topology file and the params of a run."""
