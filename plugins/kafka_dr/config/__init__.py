"""Configuration: topology file, params of a run."""
