"""Switchback: failover and failback of Kafka clients between clusters replicated by MirrorMaker 2.

DAGs order the steps. A step does its work by actions. Each hook is a client of one outside system. `domain` decides
without I/O.
Imports go one way: dags -> steps -> actions -> procedure -> hooks -> domain.
`vocabulary` and `errors` may be imported by all.
"""

__version__ = "0.1.0"
