"""Benchmarks: Switchback beside its peers, in one run on one machine. `python -m tests.benchmarks --help`."""
